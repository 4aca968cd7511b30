"""JSON answers, and errors in the form that LibreTranslate's clients expect: {"error": ...}."""

import json
from collections.abc import Mapping

from starlette.responses import Response


def as_json(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Returns `content` as JSON, without escaping its letters."""
    body = json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    return Response(body, status, headers, media_type="application/json")


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Returns an error answer with its reason."""
    return as_json({"error": message}, status, headers)
