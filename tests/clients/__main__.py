"""Asks a server with every unmodified client of other services that is installed, and prints what came of it.

    python -m tests.clients [URL] [--key FILE] [--node FOLDER] [--only NAME]... [--source CODE] [--target CODE]
                            [--text TEXT]...

Exit code 1: a client failed; 2: a mistake in the command, or the server does not answer.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from dragoman.model.columns import columns
from dragoman.model.errors import ServiceError, UserError
from dragoman.model.languages import nearest
from tests.clients.checks import Outcome, Server
from tests.clients.node_clients import SCRIPTS, ask_node_clients
from tests.clients.python_clients import CLIENTS, ask_python_clients

PATIENCE = 30.0  # seconds for one request
WIDEST = 90  # characters of an answer in the table
HEAD = ("CLIENT", "VERSION", "ASKED", "STATE", "ANSWER")
TEXTS = (
    "The dog sees the man.",
    "The cat costs 5 % \u2013 \u201ccheap\u201d, isn't it? Naïve café & 3 < 4; 犬 🐕!",
    "The dog sleeps. Two men, who are old, see it.",
)


@dataclass
class Question:
    """The server, and the clients that ask it."""

    url: str = "http://127.0.0.1:5050"
    key: str | None = None  # a file with an API key of the server in its first line; None: it needs none
    node: str = "."  # the folder in which npm installed clients (it has node_modules)
    only: list[str] = field(default_factory=list)  # clients by their names; []: all
    texts: list[str] = field(default_factory=list)  # that each client asks for; []: TEXTS
    source: str | None = None  # languages; None: the first pair that the server has
    target: str | None = None


def main(argv: Sequence[str]) -> int:
    """Returns the command's exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients", description=__doc__)
    parser.add_argument("url", nargs="?", default=Question.url)
    for name in ("key", "source", "target"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--node", default=Question.node)
    parser.add_argument("--text", dest="texts", metavar="TEXT", action="append", default=[])
    parser.add_argument("--only", action="append", default=[])
    try:
        return show(Question(**vars(parser.parse_args(argv))))
    except (UserError, ServiceError) as problem:
        print(f"clients: {problem}", file=sys.stderr)
        return 2


def show(config: Question) -> int:
    """Asks and prints the table; returns 1 if a client failed.

    Raises:
        UserError: an unknown client, or a key that cannot be read.
        ServiceError: the server does not answer.
    """
    known = [client.name for client in CLIENTS] + list(SCRIPTS)
    for name in config.only:
        if name not in known:
            raise UserError(f"--only {name}: is none of the clients {', '.join(known)}")
    found = [one for text in config.texts or TEXTS for one in ask_all(find_server(config, text), config)]
    found = list(dict.fromkeys(found))  # a client that is not installed is one line
    print("\n".join(columns([HEAD, *map(row, found)])))
    counts = Counter(one.state for one in found)
    states: dict[tuple[str, str], set[str]] = {}  # two registries may have clients of one name
    for one in found:
        states.setdefault((one.client, one.version), set()).add(one.state)
    working = sum(some == {"ok"} for some in states.values())
    print(
        f"{working} clients work; {counts['ok']} questions answered, {counts['failed']} failed; "
        f"{counts['not installed']} clients are not installed"
    )
    return 1 if counts["failed"] else 0


def ask_all(server: Server, config: Question) -> Iterator[Outcome]:
    """Yields what every client got from the server."""
    yield from ask_python_clients(server, config.only)
    yield from ask_node_clients(server, Path(config.node), config.only)


def row(one: Outcome) -> tuple[str, ...]:
    """Returns a line of the table."""
    answer = " ".join(one.answer.split())
    return (
        one.client,
        one.version or "-",
        one.asked or "-",
        one.state,
        answer if len(answer) <= WIDEST else f"{answer[: WIDEST - 3]}...",
    )


def find_server(config: Question, text: str = TEXTS[0]) -> Server:
    """Returns the server, with its own answer to the text.

    Raises:
        UserError: the key cannot be read, or the server has no such pair.
        ServiceError: it does not answer, or with an error.
    """
    url, key = config.url.rstrip("/"), read_key(config.key)
    if not url.startswith(("http://", "https://")):
        raise UserError(f"clients.url={url}: an address begins with http:// or https://; write http://{url}")
    with httpx.Client(
        base_url=url, timeout=PATIENCE, headers={"Authorization": f"Bearer {key}"} if key else {}
    ) as http:
        pairs = [(one["code"], target) for one in get(http, "GET", "/languages") for target in one["targets"]]
        fitting = [pair for pair in pairs if fits(config.source, pair[0]) and fits(config.target, pair[1])]
        if not fitting:
            raise UserError(f"{url} translates {', '.join(map('-'.join, pairs)) or 'nothing'}")
        source, target = fitting[0]
        asked = {"q": text, "source": source, "target": target, "api_key": key}
        expected = get(http, "POST", "/translate", asked)["translatedText"]
        documents = bool(get(http, "GET", "/frontend/settings")["filesTranslation"])
    return Server(url, key, source, target, text, expected, documents)


def fits(asked: str | None, code: str) -> bool:
    """Returns True if `code` is the asked language, or its nearest relative; None asks for any."""
    return asked is None or nearest(asked, (code,)) is not None


def get(http: httpx.Client, method: str, path: str, content: object = None) -> Any:
    """Returns the JSON that the server answers.

    Raises:
        ServiceError: it does not answer, or with an error.
    """
    try:
        answer = http.request(method, path, json=content)
        answer.raise_for_status()
        return answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as problem:
        raise ServiceError(f"{http.base_url}: {problem}; start a server with dragoman serve") from None


def read_key(path: str | None) -> str:
    """Returns the key in the file's first line; empty without a file.

    Raises:
        UserError: the file cannot be read.
    """
    if path is None:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8").partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise UserError(f"--key {path}: cannot be read: {problem}") from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
