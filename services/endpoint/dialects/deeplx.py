"""DeepLX's one route, POST /translate, which is LibreTranslate's too: told apart by its fields (`text`, not `q`)."""

import secrets
from collections.abc import Mapping
from typing import Any, Literal

from fastapi import Request, Response
from pydantic import Field
from starlette.exceptions import HTTPException

from dragoman.services.endpoint.answer import as_json
from dragoman.services.endpoint.dialects.questions import admit, ask, check_size
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.requests import Language, Parameters, Text, validate

ALTERNATIVES = 3  # DeepLX gives about as many


class TranslationRequest(Parameters):
    """The parameters of a translation."""

    text: Text = Field(examples=["The dog sees the man."])
    target_lang: Language = Field(title="a language code", examples=["DE"])
    source_lang: Language | Literal[""] = Field("", title="a language code, or auto")


def is_deeplx(values: Mapping[str, Any]) -> bool:
    """Returns True if the fields are DeepLX's and not LibreTranslate's."""
    return "q" not in values and "text" in values and "target_lang" in values


async def answer_deeplx(request: Request, endpoint: Endpoint, values: Mapping[str, Any]) -> Response:
    """Returns DeepLX's answer or error."""
    try:
        admit(request, endpoint, values)
        asked = validate(TranslationRequest, values)
        check_size([asked.text], endpoint)
        source = None if asked.source_lang in ("", "auto") else asked.source_lang
        most = min(ALTERNATIVES, endpoint.limits.alternatives)
        (answer,), headers = await ask(endpoint, [asked.text], source, asked.target_lang, alternatives=most)
    except HTTPException as problem:
        body = {"code": problem.status_code, "message": problem.detail}
        return as_json(body, problem.status_code, problem.headers)
    body = {
        "code": 200,
        "id": secrets.randbelow(10**10),
        "data": answer.text,
        "alternatives": list(answer.alternatives),
        "source_lang": answer.source.upper(),
        "target_lang": asked.target_lang.upper(),
    }
    return as_json(body, headers=headers)
