"""Errors in the form that each dialect's clients expect.

LibreTranslate's form, {"error": ...}, is also that of our own routes and of addresses that nothing answers.
"""

from collections.abc import Mapping

from starlette.responses import Response

from dragoman.services.http.answers import as_json, error

MLFLOW_CODES = {400: "BAD_REQUEST", 403: "PERMISSION_DENIED", 404: "ENDPOINT_NOT_FOUND", 429: "REQUEST_LIMIT_EXCEEDED"}
QUOTA = 456  # DeepL's status for a key whose characters are used up


def refusal(
    status: int, message: str, headers: Mapping[str, str] | None = None, path: str = "", reason: str = ""
) -> Response:
    """Returns an error answer in the form of the path's dialect; `reason`: why a key refused the request."""
    if path.startswith("/v2/"):
        return as_json({"message": message}, QUOTA if reason == "characters" else status, headers)
    if path == "/invocations":
        code = MLFLOW_CODES.get(status, "BAD_REQUEST" if status < 500 else "INTERNAL_ERROR")
        return as_json({"error_code": code, "message": message}, status, headers)
    return as_json(error(status, message), status, headers)
