"""LibreTranslate's routes: /translate, /detect, /languages and /frontend/settings."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from dragoman.model.languages import language_name
from dragoman.services.endpoint import schemas
from dragoman.services.endpoint.call import Call
from dragoman.services.endpoint.dialects.questions import check_pair
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.endpoint.memory_store import Unit
from dragoman.services.endpoint.openapi import Routes
from dragoman.services.endpoint.requests import (
    DetectionRequest,
    SuggestionRequest,
    TranslationRequest,
    validate,
)
from dragoman.services.endpoint.terms import with_terms
from dragoman.services.endpoint.translation import Answer
from dragoman.services.http.answers import as_json
from dragoman.services.http.wrapper import HEADERS

VERSION = b"x-dragoman-version"  # a request's header that asks for one of several models of a pair


def add_routes(app: FastAPI, documents: Documents) -> None:
    """Adds the routes, with LibreTranslate's parameters, answers and messages."""
    endpoint = documents.endpoint
    translation_request = TranslationRequest.within(endpoint.limits)
    suggestion_request = SuggestionRequest.within(endpoint.limits)

    async def translate(call: Call) -> Response:
        request = validate(translation_request, call.parameters)
        question = request.question(call.scope[HEADERS].get(VERSION, b"").decode("latin-1") or None, call.key)
        if request.glossary or request.terms:
            question = await with_terms(question, endpoint.glossaries, request.glossary, request.terms)
        answers, route = await endpoint.translate(question)
        return as_json(_body(request, answers), headers=route.headers())

    async def suggest(call: Call) -> Response:
        if endpoint.memory is None or not endpoint.config.suggestions:
            raise HTTPException(403, "Suggestions are disabled on this server.")
        request = validate(suggestion_request, call.parameters)
        check_pair(endpoint, request.source, request.target)
        endpoint.keys.charge(call.key, 0, (request.source, request.target))
        unit = Unit(request.source, request.target, request.q, request.s)
        await asyncio.to_thread(endpoint.memory.suggest, unit, call.key.name)
        return as_json({"success": True})

    async def detect(call: Call) -> Response:
        guesses = await endpoint.detect(validate(DetectionRequest, call.parameters).q, call.key)
        return as_json([guess._asdict() for guess in guesses])

    async def languages(_: Request) -> Response:
        reached = endpoint.served().view.targets
        return as_json(
            [{"code": code, "name": language_name(code), "targets": list(targets)} for code, targets in reached.items()]
        )

    async def settings(_: Request) -> Response:
        pair = endpoint.served().view.pairs[0]
        language = {
            side: {"code": code, "name": language_name(code)}
            for side, code in zip(("source", "target"), pair, strict=True)
        }
        return as_json(
            {
                "apiKeys": endpoint.keys.needed,
                "charLimit": endpoint.limits.characters,
                "filesTranslation": bool(documents.endings),
                "frontendTimeout": 500,
                "keyRequired": endpoint.keys.needed,
                "language": language,
                "suggestions": endpoint.config.suggestions,
                "supportedFilesFormat": documents.endings,
            }
        )

    routes = Routes(app)
    routes.add(
        "POST",
        "/translate",
        translate,
        "Translate a text, or a list of texts",
        schemas.Translation,
        translation_request,
        origin=True,
    )
    better = "Store a better translation, which answers the same text from then on"
    routes.add("POST", "/suggest", suggest, better, schemas.Suggested, suggestion_request)
    about = "The languages that a text may be in, most probable first"
    routes.add("POST", "/detect", detect, about, schemas.many(schemas.Detected), DetectionRequest)
    about = "The languages, and those that each is translated into"
    routes.add("GET", "/languages", languages, about, schemas.many(schemas.Language))
    app.post("/languages", include_in_schema=False)(languages)  # libretranslatepy 2.1.1
    routes.add("GET", "/frontend/settings", settings, "Limits and languages", schemas.Settings)


def _body(request: TranslationRequest, answers: Sequence[Answer]) -> dict[str, Any]:
    """Returns LibreTranslate's body: each field is a list if `q` is one."""

    def field(value: Callable[[Answer], Any]) -> Any:
        return [value(answer) for answer in answers] if request.batch else value(answers[0])

    body: dict[str, Any] = {"translatedText": field(lambda answer: answer.text)}
    if request.source == "auto":
        body["detectedLanguage"] = field(
            lambda translation: {"confidence": translation.confidence, "language": translation.source}
        )
    if request.alternatives:
        body["alternatives"] = field(lambda answer: answer.alternatives)
    if any(answer.losses for answer in answers):  # LibreTranslate's clients know no such field
        body["losses"] = field(lambda answer: answer.losses)
    if any(answer.memory for answer in answers):
        body["memory"] = field(lambda answer: answer.memory)
    if any(answer.via for answer in answers):
        body["via"] = field(lambda answer: answer.via)
    if request.report:
        body["report"] = field(lambda answer: answer.report)
    if request.alignment:
        body["alignment"] = field(lambda answer: answer.alignment)
    return body
