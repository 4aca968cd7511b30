"""The API key of a request, wherever its dialect puts it."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

SCHEMES = ("deepl-auth-key", "bearer")  # of the header Authorization: DeepL's; OpenAI's, Google's, MLflow's
FIELDS = ("api_key", "apiKey", "auth_key", "key")  # LibreTranslate's, two ways; DeepL's old one; Google's


def given_key(request: Request, values: Mapping[str, Any]) -> str:
    """Returns the key in the request's headers, body or query string; empty if there is none."""
    scheme, _, key = request.headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() in SCHEMES and key.strip():
        return key.strip()
    found = request.headers.get("x-goog-api-key") or next((values[name] for name in FIELDS if values.get(name)), "")
    return str(found)
