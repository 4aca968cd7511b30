"""LibreTranslate's routes: /translate, /detect, /languages and /frontend/settings."""

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from model.languages import standard_code
from services.endpoint import openapi
from services.endpoint.answer import as_json
from services.endpoint.dialects.deeplx import answer_deeplx, is_deeplx
from services.endpoint.dialects.questions import admit
from services.endpoint.endpoint import Endpoint
from services.endpoint.languages import language_name
from services.endpoint.requests import DetectionRequest, TranslationRequest, parameters, validate
from services.endpoint.translation import Answer


def add_libretranslate_routes(app: FastAPI, endpoint: Endpoint) -> None:
    """Adds the routes, with LibreTranslate's parameters, answers and messages."""
    translation_request = TranslationRequest.within(endpoint.limits)

    @app.post(
        "/translate",
        summary="Translate a text, or a list of texts",
        responses=openapi.answers(openapi.TRANSLATION, origin=True),
        openapi_extra=openapi.in_body(translation_request),
    )
    async def translate(request: Request) -> Response:
        values = await parameters(request)
        if is_deeplx(values):
            return await answer_deeplx(request, endpoint, values)
        admit(request, endpoint, values)
        asked = validate(translation_request, values)
        answers, served = await endpoint.translate(asked.question())
        return as_json(_body(asked, answers), headers=served.origin.headers())

    @app.post(
        "/detect",
        summary="The language that texts are assumed to be in",
        responses=openapi.answers(openapi.array_of(openapi.DETECTED), origin=True),
        openapi_extra=openapi.in_body(DetectionRequest),
    )
    async def detect(request: Request) -> Response:
        values = await parameters(request)
        admit(request, endpoint, values)
        validate(DetectionRequest, values)
        served = endpoint.queue().model()
        return as_json([{"confidence": 0.0, "language": standard_code(served.source)}], headers=served.origin.headers())

    @app.post("/suggest", include_in_schema=False)
    async def suggest() -> Response:
        raise HTTPException(403, "Suggestions are disabled on this server.")

    @app.post("/translate_file", include_in_schema=False)
    async def translate_file() -> Response:
        raise HTTPException(403, "Files translation are disabled on this server.")

    @app.get("/languages", summary="The model's pair", responses=openapi.answers(openapi.LANGUAGES))
    async def languages() -> Response:
        served = endpoint.queue().model()
        source, target = map(standard_code, (served.source, served.target))
        pairs = {source: [target], target: []}
        return as_json(
            [{"code": code, "name": language_name(code), "targets": targets} for code, targets in pairs.items()]
        )

    @app.get("/frontend/settings", summary="Limits and languages", responses=openapi.answers(openapi.SETTINGS))
    async def settings() -> Response:
        served = endpoint.queue().model()
        language = {
            side: {"code": code, "name": language_name(code)}
            for side, code in (("source", standard_code(served.source)), ("target", standard_code(served.target)))
        }
        return as_json(
            {
                "apiKeys": bool(endpoint.keys),
                "charLimit": endpoint.limits.characters,
                "filesTranslation": False,
                "frontendTimeout": 500,
                "keyRequired": bool(endpoint.keys),
                "language": language,
                "suggestions": False,
                "supportedFilesFormat": [],
            }
        )


def _body(asked: TranslationRequest, answers: Sequence[Answer]) -> dict[str, Any]:
    """Returns LibreTranslate's body: each field is a list if `q` is one."""

    def field(value: Callable[[Answer], Any]) -> Any:
        return [value(answer) for answer in answers] if asked.batch else value(answers[0])

    body: dict[str, Any] = {"translatedText": field(lambda answer: answer.text)}
    if asked.source == "auto":
        body["detectedLanguage"] = field(lambda one: {"confidence": one.confidence, "language": one.source})
    if asked.alternatives:
        body["alternatives"] = field(lambda answer: answer.alternatives)
    if any(answer.losses for answer in answers):  # LibreTranslate's clients know no such field
        body["losses"] = field(lambda answer: answer.losses)
    if asked.reported:
        body["report"] = field(lambda answer: answer.report)
    if asked.aligned:
        body["alignment"] = field(lambda answer: answer.alignment)
    return body
