"""An answer in JSON, and a refusal in the shape that LibreTranslate's clients expect: {"error": ...}."""

import json
from collections.abc import Mapping

from starlette.responses import Response


def as_json(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`content` as JSON, its letters as they are."""
    body = json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    return Response(body, status, headers, media_type="application/json")


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Why there is no answer."""
    return as_json({"error": message}, status, headers)
