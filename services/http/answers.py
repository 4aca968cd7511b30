"""JSON answers, and the form of errors that has no dialect: {"error": ...}."""

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from starlette.responses import Response

Form = Callable[[int, str], Any]  # status and message -> the body of an error


def error(_status: int, message: str) -> dict[str, str]:
    """Returns the body of an error of our own routes."""
    return {"error": message}


def as_json(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Returns `content` as JSON, without escaping its letters."""
    return Response(orjson.dumps(content), status, headers, media_type="application/json")


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Returns an error answer with its reason."""
    return as_json(error(status, message), status, headers)
