"""JSON answers, and errors in the form that LibreTranslate's clients expect: {"error": ...}."""

from collections.abc import Mapping

import orjson
from starlette.responses import Response


def as_json(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Returns `content` as JSON, without escaping its letters."""
    return Response(orjson.dumps(content), status, headers, media_type="application/json")


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Returns an error answer with its reason."""
    return as_json({"error": message}, status, headers)
