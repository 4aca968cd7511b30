"""Errors in the form that each dialect's clients expect.

LibreTranslate's form, {"error": ...}, is also that of our own routes and of addresses that nothing answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from dragoman.services.endpoint.dialects import schemas
from dragoman.services.endpoint.schemas import shape
from dragoman.services.http.answers import Form, as_json, error

GOOGLE_NAMES = {  # google.rpc.Code by HTTP status, and the reason that version 2 names
    400: ("INVALID_ARGUMENT", "invalid"),
    401: ("UNAUTHENTICATED", "authError"),
    403: ("PERMISSION_DENIED", "forbidden"),
    404: ("NOT_FOUND", "notFound"),
    408: ("DEADLINE_EXCEEDED", "timeout"),
    413: ("INVALID_ARGUMENT", "uploadTooLarge"),
    429: ("RESOURCE_EXHAUSTED", "rateLimitExceeded"),
    500: ("INTERNAL", "backendError"),
    501: ("UNIMPLEMENTED", "notImplemented"),
    503: ("UNAVAILABLE", "backendError"),
}
OPENAI_KINDS = {403: "permission_error", 429: "rate_limit_error"}
MLFLOW_CODES = {400: "BAD_REQUEST", 403: "PERMISSION_DENIED", 404: "ENDPOINT_NOT_FOUND", 429: "REQUEST_LIMIT_EXCEEDED"}


@dataclass(frozen=True)
class Dialect:
    """The errors that the clients of one service expect."""

    schema: Any  # of an error's body
    form: Form
    statuses: Mapping[str, int] = field(default_factory=dict)  # by the reason why a key refuses


def google_error(status: int, message: str) -> dict[str, Any]:
    name, reason = GOOGLE_NAMES.get(status, ("UNKNOWN", "unknown"))
    errors = [{"message": message, "domain": "global", "reason": reason}]
    return {"error": {"code": status, "message": message, "status": name, "errors": errors}}


def openai_error(status: int, message: str) -> dict[str, Any]:
    kind = OPENAI_KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    code = "invalid_api_key" if status == 401 else None
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def mlflow_error(status: int, message: str) -> dict[str, Any]:
    code = MLFLOW_CODES.get(status, "BAD_REQUEST" if status < 500 else "INTERNAL_ERROR")
    return {"error_code": code, "message": message}


OWN = Dialect(shape("Error", error=str), error)
DEEPL = Dialect(schemas.DeepLError, lambda _, message: {"message": message}, {"characters": 456})
GOOGLE = Dialect(schemas.GoogleError, google_error)
OPENAI = Dialect(schemas.OpenAIError, openai_error, dict.fromkeys(("missing", "unknown"), 401))
MLFLOW = Dialect(schemas.MlflowError, mlflow_error)
STARTS = {  # of paths; the first that fits
    "/language/translate/": GOOGLE,
    "/v3/projects/": GOOGLE,
    "/v2/": DEEPL,
    "/v3/": DEEPL,
    "/v1/": OPENAI,
    "/invocations": MLFLOW,
}


def dialect_of(path: str) -> Dialect:
    """Returns the dialect that a path belongs to."""
    return next((dialect for start, dialect in STARTS.items() if path.startswith(start)), OWN)


def refusal(
    status: int, message: str, headers: Mapping[str, str] | None = None, path: str = "", reason: str = ""
) -> Response:
    """Returns an error answer in the form of the path's dialect; `reason`: why a key refused the request."""
    dialect = dialect_of(path)
    status = dialect.statuses.get(reason, status)
    return as_json(dialect.form(status, message), status, headers)
