"""An admitted request: its parameters, and the key that it has. The one place that finds out who asks."""

import json
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.datastructures import FormData, QueryParams, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.keys import NOBODY, Key

SCHEMES = ("deepl-auth-key", "bearer")  # of the header Authorization: DeepL's, MLflow's
FIELDS = ("api_key", "apiKey", "auth_key")  # LibreTranslate's, two ways; DeepL's old one
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


@dataclass
class Call:
    """The contents of a request, and who asks."""

    parameters: dict[str, Any]  # of body and query string, without those that are null
    key: Key = NOBODY
    name: str = ""  # of the file in a form; empty: there is none
    content: bytes = b""


def endpoint_of(request: Request) -> Endpoint:
    """Returns the endpoint whose application was asked."""
    endpoint: Endpoint = request.app.state.endpoint
    return endpoint


async def admit(request: Request, files: int = 0) -> Call:
    """Returns the request's parameters, its file (if `files` is 1) and its key.

    Raises:
        HTTPException: 400, the body cannot be read.
        KeyRefusedError: the key is missing or wrong, and the server needs one.
    """
    call = await _read(request, files)
    address = request.client.host if request.client else ""
    call.key = endpoint_of(request).keys.admit(_given_key(request, call.parameters), address)
    return call


def _given_key(request: Request, parameters: dict[str, Any]) -> str:
    """Returns the key in the header, the body or the query string; empty if there is none."""
    scheme, _, key = request.headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() in SCHEMES and key.strip():
        return key.strip()
    return next((str(parameters[name]) for name in FIELDS if parameters.get(name)), "")


async def _read(request: Request, files: int) -> Call:
    """Reads body and query string as one mapping; the body wins. A repeated form field is a list."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    values = _fields(request.query_params) if request.url.query else {}
    call = Call(values)
    try:
        if kind in FORMS:
            async with request.form(max_files=files, max_fields=1000 if not files else 20) as form:
                content: Any = _check_text(_fields(form))
                file = form.get("file")
                if isinstance(file, UploadFile):
                    call.name, call.content = file.filename or "", await file.read()
        else:
            content = _parse_json(await request.body())
    except (ValueError, RecursionError):
        raise HTTPException(400, f"Invalid request: the body is not {'a form' if kind in FORMS else 'JSON'}") from None
    if not isinstance(content, dict):
        raise HTTPException(400, "Invalid request: the body is not a JSON object")
    call.parameters = {name: value for name, value in (values | content).items() if value is not None}
    return call


def _parse_json(body: bytes) -> Any:
    """Returns what the body holds; an empty one is an empty object.

    Raises:
        ValueError, RecursionError: it is not JSON.
        HTTPException: 400, it has a lone surrogate.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:  # empty, in UTF-16, with a surrogate or a NaN, or not JSON
        return _check_text(json.loads(body) if body.strip() else {})


def _check_text(content: Any) -> Any:
    """Returns the content.

    Raises:
        HTTPException: 400, it has a lone surrogate, which is valid JSON ("\\ud800") but no text: it cannot be written.
    """
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        message = "Invalid request: the body holds a lone surrogate, which is no Unicode text"
        raise HTTPException(400, message) from None
    return content


def _fields(form: FormData | QueryParams) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in form:
        texts = [value for value in form.getlist(name) if isinstance(value, str)]
        if texts:
            values[name] = texts if len(texts) > 1 else texts[0]
    return values
