"""One question to a client, and its answer."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

State = Literal["ok", "failed", "not installed"]


@dataclass(frozen=True)
class Server:
    """The server that is asked, and what it is asked to translate."""

    url: str  # without a slash at its end
    key: str
    source: str  # languages
    target: str
    text: str
    expected: str  # its translation, as the server itself gives it
    documents: bool = False  # it translates documents

    def record(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Outcome:
    """A line of the table."""

    client: str
    version: str
    asked: str
    state: State
    answer: str  # or the error, or how to install the client


Ask = Callable[[Server], object]


@dataclass(frozen=True)
class Client:
    """A client of one registry, and its questions by what they ask for.

    A question of `translations` must be answered with the server's own translation, of `others` with anything true.
    """

    name: str
    translations: Mapping[str, Ask]
    others: Mapping[str, Ask]


def judge(client: str, version: str, asked: str, answer: object, expected: str | None) -> Outcome:
    """Returns the line for an answer; `expected` is the translation, if it must be one."""
    shown = str(answer)
    if expected is not None and shown != expected:
        return Outcome(client, version, asked, "failed", f"{shown!r}, but the server itself answers {expected!r}")
    if not answer:
        return Outcome(client, version, asked, "failed", f"an empty answer: {answer!r}")
    return Outcome(client, version, asked, "ok", shown)


def explain(problem: BaseException) -> str:
    """Returns an error on one line."""
    return " ".join(f"{type(problem).__name__}: {problem}".split())[:300]
