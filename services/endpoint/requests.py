"""What a client may ask of /translate, read from JSON, a form or the query string, and checked.

`parameters`, `whole_number` and `check_key` are every route's. No message repeats what was sent, but for a language
code: it has the form of one by then.

The parameters and the words and codes of the errors are LibreTranslate's, so that its clients work unchanged.
"""

import hmac
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import FormData, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request

from services.settings import Limits

LANGUAGE = re.compile("[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")  # a code, as BCP 47 has it or with low lines


@dataclass(frozen=True)
class TranslationRequest:
    """A checked request: `batch` says whether `q` was a list, and so the answer is one."""

    texts: list[str]
    batch: bool
    source: str  # "auto": to be detected
    target: str
    alternatives: int
    alignment: bool = False  # with what each word of the translation looked at


async def parameters(request: Request) -> dict[str, Any]:
    """Body and query string as one mapping; the body wins. A form field that comes twice is a list.

    Raises:
        HTTPException: 400, the body cannot be read, or it holds what is no text.
    """
    values = _fields(request.query_params)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
            content = _fields(await request.form(max_files=0))
        else:
            body = await request.body()
            content = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError):
        raise HTTPException(400, f"Invalid request: the body is not {'a form' if 'form' in kind else 'JSON'}") from None
    if not isinstance(content, dict):
        raise HTTPException(400, "Invalid request: the body is not a JSON object")
    if not _is_text(content):
        raise HTTPException(400, "Invalid request: the body holds a lone surrogate, which is no Unicode text")
    return values | content


def read_translation(values: Mapping[str, Any], limits: Limits) -> TranslationRequest:
    """The checked request.

    Raises:
        HTTPException: 400 with the words of LibreTranslate: a parameter is missing, of a wrong type, or over a limit.
    """
    q = values.get("q")
    if q is None or q == "" or q == []:
        raise HTTPException(400, "Invalid request: missing q parameter")
    batch = isinstance(q, list)
    texts = q if isinstance(q, list) else [q]
    if not all(isinstance(text, str) for text in texts):
        raise HTTPException(400, "Invalid request: q must be a string or a list of strings")
    if len(texts) > limits.texts:
        raise HTTPException(400, f"Invalid request: request ({len(texts)}) exceeds batch limit ({limits.texts})")
    size = sum(map(len, texts))
    if size > limits.characters:
        raise HTTPException(400, f"Invalid request: request ({size}) exceeds text limit ({limits.characters})")
    form = values.get("format")
    if form == "html":
        raise HTTPException(400, "html format is not supported: HTML is not translated here, send plain text")
    if form not in (None, "", "text"):
        raise HTTPException(400, "Invalid request: format must be text")
    alternatives = whole_number(values, "alternatives", 0, 0, limits.alternatives)
    return TranslationRequest(
        texts,
        batch,
        _code(values, "source"),
        _code(values, "target"),
        alternatives,
        switch(values, "alignment"),
    )


def whole_number(values: Mapping[str, Any], name: str, default: int, least: int, most: int) -> int:
    """A parameter that is a number, as JSON's or in figures; `default` where it is not given.

    Raises:
        HTTPException: 400, not a whole number, or out of its bounds.
    """
    given = values.get(name)
    number = least - 1
    if given is None or given == "":
        number = default
    elif isinstance(given, str) and re.fullmatch("[0-9]{1,10}", given):
        number = int(given)
    elif isinstance(given, int) and not isinstance(given, bool):
        number = given
    if number < least:
        raise HTTPException(400, f"Invalid request: {name} must be a whole number, {least} or more")
    if number > most:
        raise HTTPException(400, f"Invalid request: {name} parameter must be <= {most}")
    return number


def switch(values: Mapping[str, Any], name: str) -> bool:
    """A parameter that is true or false, as JSON's or in letters; false where it is not given.

    Raises:
        HTTPException: 400, anything else.
    """
    given = values.get(name)
    if given is None or given == "" or isinstance(given, bool):
        return bool(given)
    written = given.lower() if isinstance(given, str) else ""
    if written not in ("true", "false", "1", "0"):
        raise HTTPException(400, f"Invalid request: {name} must be true or false")
    return written in ("true", "1")


def check_key(values: Mapping[str, Any], keys: Sequence[str]) -> None:
    """Refuse with 403 unless one of `keys` is given as `api_key`; without keys, everything is let through."""
    given = str(values.get("api_key") or "").encode("utf-8", "replace")
    if keys and not any(hmac.compare_digest(given, key.encode()) for key in keys):
        raise HTTPException(403, "Invalid API key" if given else "Please contact the server operator to get an API key")


def _code(values: Mapping[str, Any], name: str) -> str:
    code = values.get(name)
    if not code:
        raise HTTPException(400, f"Invalid request: missing {name} parameter")
    if not isinstance(code, str) or not LANGUAGE.fullmatch(code):
        raise HTTPException(400, f"Invalid request: {name} must be a language code")
    return code.lower()


def _is_text(content: Any) -> bool:
    """A lone surrogate is valid JSON ("\\ud800") and no text: it can be written nowhere."""
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _fields(form: FormData | QueryParams) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in form:
        found = form.getlist(name)
        values[name] = found if len(found) > 1 else found[0]
    return values
