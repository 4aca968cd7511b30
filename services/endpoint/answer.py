"""Errors in the form that each dialect's clients expect.

LibreTranslate's form, {"error": ...}, is also that of our own routes and of addresses that nothing answers.
"""

from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import Response

from dragoman.services.endpoint.dialects.schemas import DeepLError, GoogleError, GoogleReason, MlflowError, OpenAIError
from dragoman.services.http.answers import Form, as_json, error

OVER_QUOTA = 456  # DeepL's: the key's characters are used up; other dialects say 429
NO_KEY = 401  # OpenAI's: no key, or an unknown one; other dialects say 403
GOOGLE = {  # google.rpc.Code by HTTP status, and the reason that version 2 names
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
OPENAI = {403: "permission_error", 429: "rate_limit_error"}
MLFLOW = {400: "BAD_REQUEST", 403: "PERMISSION_DENIED", 404: "ENDPOINT_NOT_FOUND", 429: "REQUEST_LIMIT_EXCEEDED"}


def deepl(_status: int, message: str) -> DeepLError:
    return {"message": message}


def google(status: int, message: str) -> GoogleError:
    name, reason = GOOGLE.get(status, ("UNKNOWN", "unknown"))
    errors: list[GoogleReason] = [{"message": message, "domain": "global", "reason": reason}]
    return {"error": {"code": status, "message": message, "status": name, "errors": errors}}


def openai(status: int, message: str) -> OpenAIError:
    kind = OPENAI.get(status, "invalid_request_error" if status < 500 else "server_error")
    code = "invalid_api_key" if status == NO_KEY else None
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def mlflow(status: int, message: str) -> MlflowError:
    code = MLFLOW.get(status, "BAD_REQUEST" if status < 500 else "INTERNAL_ERROR")
    return {"error_code": code, "message": message}


# The beginnings of paths, the first that fits.
FORMS: tuple[tuple[str, Form], ...] = (
    ("/language/translate/", google),
    ("/v3/projects/", google),
    ("/v2/", deepl),
    ("/v3/", deepl),
    ("/v1/", openai),
    ("/invocations", mlflow),
)


def form_of(path: str) -> Form:
    """Returns the form of errors of the dialect that `path` belongs to."""
    return next((form for start, form in FORMS if path.startswith(start)), error)


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None, path: str = "") -> Response:
    """Returns an error answer with its reason, in the form of the dialect that `path` belongs to."""
    form = form_of(path)
    if status == OVER_QUOTA and form is not deepl:
        status = HTTPStatus.TOO_MANY_REQUESTS
    return as_json(form(status, message), status, headers)
