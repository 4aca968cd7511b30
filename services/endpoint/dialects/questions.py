"""The common part of the dialects: the languages on offer, limits of texts, the question to the endpoint."""

import asyncio
from collections.abc import Sequence
from typing import Any

from starlette.exceptions import HTTPException

from dragoman.model.languages import nearest, standard_code
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.keys import Key
from dragoman.services.endpoint.translation import Answer, Question
from dragoman.services.texts.glossary import Glossary
from dragoman.services.texts.options import TextOptions

NAMES = ("source", "target")  # of the parameters
UNSUPPORTED = "Invalid value for {name}: {code} is not supported"


async def ask(
    endpoint: Endpoint,
    key: Key,
    texts: Sequence[str],
    source: str | None,
    target: str,
    options: TextOptions | None = None,
    alternatives: int = 0,
    version: str | None = None,
    too_large: int = 400,
    names: tuple[str, str] = NAMES,
    message: str = UNSUPPORTED,
) -> tuple[list[Answer], dict[str, str]]:
    """Returns one answer per text, and the headers that name the model.

    Raises HTTPException: as `check_size`, `check_pair` and `Endpoint.translate`; MarkupError if a text has not the
    format that is said.
    """
    check_size(texts, endpoint, too_large)
    check_pair(endpoint, source, target, names, message)
    question = Question(texts, source, target, alternatives, options=options or TextOptions(), version=version, key=key)
    answers, route = await endpoint.translate(question)
    return answers, route.headers()


async def use_glossaries(endpoint: Endpoint, key: Key, method: str, *values: Any, **more: Any) -> Any:
    """Calls the store of glossaries on another thread, for the owner of the key."""
    return await asyncio.to_thread(getattr(endpoint.glossaries, method), key.digest, *values, **more)


async def glossary_of(
    endpoint: Endpoint, key: Key, ids: Sequence[str], source: str | None, target: str
) -> Glossary | None:
    """Returns the terms of stored glossaries, the most important first; None without any.

    Raises HTTPException: 404, one is not there, or has not the languages.
    """
    terms: dict[str, str] = {}
    for identity in ids:
        terms = await use_glossaries(endpoint, key, "terms", identity, source, target) | terms
    return Glossary(terms) if terms else None


def usage(endpoint: Endpoint, key: Key) -> tuple[int, int | None]:
    """Returns the characters that were translated for a key this month, and the limit (None: there is
    none); where no key is needed, those that were translated since the start."""
    return endpoint.keys.usage(key) if key.digest else (endpoint.metrics.characters["in"], None)


def check_size(texts: Sequence[str], endpoint: Endpoint, status: int = 400) -> None:
    """Raises 400 for more texts than a request may have, and `status` for more characters."""
    limits = endpoint.limits
    size = sum(map(len, texts))
    if len(texts) > limits.texts:
        raise HTTPException(400, f"{len(texts)} texts exceed the limit of {limits.texts} in a request")
    if size > limits.characters:
        raise HTTPException(status, f"{size} characters exceed the limit of {limits.characters} in a request")


def offered(code: str, languages: Sequence[str]) -> bool:
    """Returns True if one of the languages is the asked one or its nearest relative."""
    return nearest(standard_code(code), tuple(languages)) is not None


def is_pair(endpoint: Endpoint, source: str, target: str) -> bool:
    """Returns True if a pair of languages is on offer, in whatever spelling."""
    return any(offered(source, [first]) and offered(target, [two]) for first, two in endpoint.pairs())


def check_pair(
    endpoint: Endpoint,
    source: str | None,
    target: str,
    names: tuple[str, str] = NAMES,
    message: str = UNSUPPORTED,
) -> None:
    """Raises 400 with the dialect's message if there is no model from `source` (None: any) or into `target`."""
    sources, targets = endpoint.languages()
    for name, code, languages in ((names[1], target, targets), (names[0], source, sources)):
        if code is not None and not offered(code, languages):
            raise HTTPException(400, message.format(name=name, code=code))


def choose_pair(endpoint: Endpoint, source: str | None, target: str | None) -> tuple[str | None, str]:
    """Returns the languages of a request that may name none: those of the one pair that fits; a source that several
    pairs have is detected (None).

    Raises HTTPException: 400, pairs with several targets fit, or none.
    """
    pairs = endpoint.pairs()
    fitting = [
        pair
        for pair in pairs
        if (source is None or offered(source, [pair[0]])) and (target is None or offered(target, [pair[1]]))
    ]
    if target is None and len({into for _, into in fitting}) != 1:
        names = ", ".join(f"{origin}-{into}" for origin, into in pairs)
        raise HTTPException(400, f"name the target language: the pairs here are {names}")
    if source is None and len(fitting) == 1:
        source = fitting[0][0]
    return source, target or fitting[0][1]
