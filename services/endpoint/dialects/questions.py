"""What the dialects have in common: keys, the languages on offer, limits of texts, the question to the endpoint."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request
from starlette.exceptions import HTTPException

from model.errors import UserError
from model.languages import nearest, standard_code
from services.endpoint.dialects.credentials import given_key
from services.endpoint.endpoint import Endpoint
from services.endpoint.requests import check_key, parameters
from services.endpoint.translation import Answer, Question
from services.texts.options import TextOptions


class MarkupError(HTTPException):
    """A text is not in the format that its client says."""


async def read_request(request: Request, endpoint: Endpoint) -> dict[str, Any]:
    """Returns the parameters of a request whose key is right, without those that are null.

    Raises:
        HTTPException: 400 the body cannot be read, 403 the key is missing or wrong.
    """
    values = {name: value for name, value in (await parameters(request)).items() if value is not None}
    admit(request, endpoint, values)
    return values


def admit(request: Request, endpoint: Endpoint, values: Mapping[str, Any]) -> None:
    """Raises 403 unless the request has a right key, or the endpoint needs none."""
    check_key({"api_key": given_key(request, values)}, endpoint.keys)


async def ask(
    endpoint: Endpoint,
    texts: Sequence[str],
    source: str | None,
    target: str,
    options: TextOptions | None = None,
    alternatives: int = 0,
) -> tuple[list[Answer], dict[str, str]]:
    """Returns one answer per text, and the headers that name the model.

    Raises:
        HTTPException: as `Endpoint.translate`.
        MarkupError: 400, a text has not the format that is said.
    """
    question = Question(texts, source, target, alternatives, options=options or TextOptions())
    try:
        answers, served = await endpoint.translate(question)
    except UserError as problem:
        raise MarkupError(400, str(problem)) from None
    return answers, served.origin.headers()


async def use_glossaries(endpoint: Endpoint, method: str, request: Request, *values: Any, **more: Any) -> Any:
    """Calls the store of glossaries on another thread, for the owner of the request's key."""
    key = given_key(request, request.query_params)
    owner = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest() if key else ""
    return await asyncio.to_thread(getattr(endpoint.glossaries, method), owner, *values, **more)


def usage(endpoint: Endpoint) -> tuple[int, int | None]:
    """Returns how many characters were translated, and how many may be; None: there is no limit."""
    return endpoint.metrics.characters_in(), None


def check_size(texts: Sequence[str], endpoint: Endpoint, status: int = 400) -> None:
    """Raises 400 for more texts than a request may have, and `status` for more characters."""
    limits = endpoint.limits
    size = sum(map(len, texts))
    if len(texts) > limits.texts:
        raise HTTPException(400, f"{len(texts)} texts exceed the limit of {limits.texts} in a request")
    if size > limits.characters:
        raise HTTPException(status, f"{size} characters exceed the limit of {limits.characters} in a request")


def sources(endpoint: Endpoint) -> list[str]:
    """Returns the languages that can be translated from, each once."""
    return list(dict.fromkeys(source for source, _ in endpoint.pairs()))


def targets(endpoint: Endpoint) -> list[str]:
    """Returns the languages that can be translated into, each once."""
    return list(dict.fromkeys(target for _, target in endpoint.pairs()))


def offered(code: str, languages: Sequence[str]) -> bool:
    """Returns True if one of the languages is the asked one or its nearest relative."""
    return nearest(standard_code(code), tuple(languages)) is not None


def check_pair(
    endpoint: Endpoint,
    source: str | None,
    target: str,
    names: tuple[str, str] = ("source", "target"),
    message: str = "Invalid value for {name}: {code} is not supported",
) -> None:
    """Raises 400 with the dialect's message if there is no model from `source` (None: any) or into `target`."""
    for name, code, languages in ((names[1], target, targets(endpoint)), (names[0], source, sources(endpoint))):
        if code is not None and not offered(code, languages):
            raise HTTPException(400, message.format(name=name, code=code))


async def detect(endpoint: Endpoint, text: str) -> list[tuple[str, float]]:
    """Returns the languages that a text may be in with their probability in percent, the most probable first."""
    return [(source, 0.0) for source in sources(endpoint)[:1]]  # assumed: nothing is detected


def choose_pair(endpoint: Endpoint, source: str | None, target: str | None) -> tuple[str | None, str]:
    """Returns the languages of a request that may name none: those of the one pair that fits.

    Raises:
        HTTPException: 400, several pairs fit, or none.
    """
    if target:
        return source, target
    pairs = endpoint.pairs()
    fitting = {into for origin, into in pairs if source is None or offered(source, [origin])}
    if len(fitting) != 1:
        names = ", ".join(f"{origin}-{into}" for origin, into in pairs)
        raise HTTPException(400, f"name the target language: the pairs here are {names}")
    return source, fitting.pop()
