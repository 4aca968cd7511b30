"""The clients that are Python packages. Each is imported only when it is asked: none is needed to run Dragoman."""

import contextlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Any
from urllib.parse import urlsplit

from tests.clients.checks import Client, Outcome, Server, explain, judge

KEYLESS = "none"  # clients that insist on a key send this one to a server that needs none


def _key(server: Server) -> str:
    return server.key or KEYLESS


def _libretranslatepy(server: Server) -> Any:
    from libretranslatepy import LibreTranslateAPI

    return LibreTranslateAPI(f"{server.url}/", server.key or None)


def _deep_translator(server: Server) -> Any:
    from deep_translator import LibreTranslator

    return LibreTranslator(
        source=server.source, target=server.target, api_key=_key(server), custom_url=f"{server.url}/"
    )


def _translate(server: Server) -> Any:
    from translate import Translator

    return Translator(
        from_lang=server.source,
        to_lang=server.target,
        provider="libre",
        base_url=f"{server.url}/",
        secret_access_key=server.key or None,
    ).translate(server.text)


def _deepl(server: Server) -> Any:
    import deepl

    return deepl.DeepLClient(_key(server), server_url=server.url)


def _deepl_target(server: Server) -> str:
    """Returns the target as DeepL's client takes it: it refuses plain EN and PT."""
    return {"en": "EN-US", "pt": "PT-PT"}.get(server.target, server.target)


def _deepl_text(server: Server, **options: Any) -> Any:
    client = _deepl(server)
    return client.translate_text(
        server.text, source_lang=server.source, target_lang=_deepl_target(server), **options
    ).text


def _mlflow(server: Server) -> Any:
    from mlflow.pyfunc.scoring_server.client import ScoringServerClient

    parts = urlsplit(server.url)
    client = ScoringServerClient(parts.hostname, parts.port)
    client.ping()
    languages = {"source": server.source, "target": server.target}
    return client.invoke([server.text], params=languages).get_predictions().iloc[0, 0]


def _markup(server: Server) -> str:
    return f"<p>{server.text}</p>"


CLIENTS = (
    Client(
        "libretranslatepy",
        {"translate": lambda server: _libretranslatepy(server).translate(server.text, server.source, server.target)},
        {
            "languages": lambda server: [one["code"] for one in _libretranslatepy(server).languages()],
            "detect": lambda server: _libretranslatepy(server).detect(server.text),
        },
    ),
    Client("deep-translator", {"translate": lambda server: _deep_translator(server).translate(server.text)}, {}),
    Client("translate", {"translate": _translate}, {}),
    Client(
        "deepl",
        {
            "translate": _deepl_text,
            "translate a list": lambda server: (
                _deepl(server).translate_text([server.text] * 2, target_lang=_deepl_target(server))[1].text
            ),
        },
        {
            "translate XML": lambda server: (
                _deepl(server)
                .translate_text(_markup(server), target_lang=_deepl_target(server), tag_handling="xml")
                .text
            ),
            "languages": lambda server: [one.code for one in _deepl(server).get_target_languages()],
            "usage": lambda server: _deepl(server).get_usage().character.count is not None,
        },
    ),
    Client("mlflow", {"invoke": _mlflow}, {}),
)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps the clients' own warnings and log lines back during the block."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def ask_python_clients(server: Server, wanted: Sequence[str] = ()) -> Iterator[Outcome]:
    """Yields what each client of the table, or of `wanted`, got from the server."""
    for client in CLIENTS:
        if wanted and client.name not in wanted:
            continue
        try:
            version = metadata.version(client.name)
        except metadata.PackageNotFoundError:
            yield Outcome(client.name, "", "", "not installed", f"pip install {client.name}")
            continue
        for asked, question in {**client.translations, **client.others}.items():
            expected = server.expected if asked in client.translations else None
            try:
                with quiet():
                    answer = question(server)
            except Exception as problem:  # whatever a client raises, the others are asked
                yield Outcome(client.name, version, asked, "failed", explain(problem))
            else:
                yield judge(client.name, version, asked, answer, expected)
