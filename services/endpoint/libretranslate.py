"""LibreTranslate's routes: of texts, documents, suggestions and languages."""

import asyncio
import fcntl
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dragoman.model.languages import base_language, language_name
from dragoman.services.endpoint.call import admit, endpoint_of
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.endpoint.requests import (
    DetectionRequest,
    FileRequest,
    SuggestionRequest,
    TranslationRequest,
    check_size,
    validate,
)
from dragoman.services.endpoint.translation import Answer
from dragoman.services.http.answers import as_json

FILE_PATH = "/translate_file"
MOST = 100_000_000  # bytes of the file of suggestions
logger = logging.getLogger(__name__)


async def translate(request: Request) -> Response:
    """Translates.
    ---
    summary: Translate a text, or a list of texts
    requestBody: {$ref: "#/components/requestBodies/TranslationRequest"}
    responses: {200: {$ref: "#/components/responses/Translation"}, default: {$ref: "#/components/responses/Error"}}
    """
    endpoint, call = endpoint_of(request), await admit(request)
    asked = validate(TranslationRequest, call.parameters)
    answers, route = await endpoint.translate(asked.question(endpoint.limits, call.key))
    return as_json(_body(asked, answers), headers=route.headers())


async def suggest(request: Request) -> Response:
    """Adds a better translation to the file of suggestions.
    ---
    summary: Send a better translation, for the next training
    requestBody: {$ref: "#/components/requestBodies/SuggestionRequest"}
    responses: {200: {$ref: "#/components/responses/Success"}, default: {$ref: "#/components/responses/Error"}}
    """
    endpoint, call = endpoint_of(request), await admit(request)
    if endpoint.suggestions is None:
        raise HTTPException(403, "Suggestions are disabled on this server.")
    asked = validate(SuggestionRequest, call.parameters)
    check_size([asked.q], endpoint.limits)
    check_size([asked.s], endpoint.limits)
    endpoint.check_pair(asked.source, asked.target)
    endpoint.keys.charge(call.key)
    pair = base_language(asked.source), base_language(asked.target)
    try:
        await asyncio.to_thread(append_suggestion, endpoint.suggestions, *pair, asked.q, asked.s, call.key.name)
    except OSError as problem:
        logger.error("a suggestion could not be stored: %s", problem)
        raise HTTPException(503, "The suggestion cannot be stored: try again later", {"Retry-After": "60"}) from None
    return as_json({"success": True})


async def detect(request: Request) -> Response:
    """Detects a text's language.
    ---
    summary: The languages that a text may be in, most probable first
    requestBody: {$ref: "#/components/requestBodies/DetectionRequest"}
    responses: {200: {$ref: "#/components/responses/Detections"}, default: {$ref: "#/components/responses/Error"}}
    """
    call = await admit(request)
    guesses = await endpoint_of(request).detect(validate(DetectionRequest, call.parameters).q, call.key)
    return as_json([guess._asdict() for guess in guesses])


async def languages(request: Request) -> Response:
    """Lists the languages.
    ---
    summary: The languages, and those that each is translated into
    responses: {200: {$ref: "#/components/responses/Languages"}, default: {$ref: "#/components/responses/Error"}}
    """
    reached = endpoint_of(request).served().view.targets
    return as_json(
        [{"code": code, "name": language_name(code), "targets": list(targets)} for code, targets in reached.items()]
    )


async def settings(request: Request) -> Response:
    """Tells the limits and languages.
    ---
    summary: Limits and languages
    responses: {200: {$ref: "#/components/responses/Settings"}, default: {$ref: "#/components/responses/Error"}}
    """
    endpoint, endings = endpoint_of(request), request.app.state.documents.endings
    source, target = endpoint.served().view.pairs[0]
    return as_json(
        {
            "apiKeys": endpoint.keys.needed,
            "charLimit": endpoint.limits.characters,
            "filesTranslation": bool(endings),
            "frontendTimeout": 500,
            "keyRequired": endpoint.keys.needed,
            "language": {
                "source": {"code": source, "name": language_name(source)},
                "target": {"code": target, "name": language_name(target)},
            },
            "suggestions": endpoint.suggestions is not None,
            "supportedFilesFormat": endings,
        }
    )


async def translate_file(request: Request) -> Response:
    """Translates a document.
    ---
    summary: Translate a document, its layout kept
    requestBody: {$ref: "#/components/requestBodies/FileRequest"}
    responses: {200: {$ref: "#/components/responses/TranslatedFile"}, default: {$ref: "#/components/responses/Error"}}
    """
    documents: Documents = request.app.state.documents
    call = await admit(request, files=1)
    if not call.name:
        raise HTTPException(400, "Invalid request: empty file")
    asked = validate(FileRequest, call.parameters)
    source = None if asked.source == "auto" else asked.source
    done = await documents.translate(call.name, call.content, source, asked.target, call.key)
    notes = {"notes": done.notes} if done.notes else {}
    return as_json({"translatedFileUrl": f"{request.base_url}download_file/{done.address}", **notes})


async def download_file(request: Request) -> Response:
    """Gives a document as an attachment: a page that was translated must not run here as one of ours."""
    documents: Documents = request.app.state.documents
    finished = await asyncio.to_thread(documents.result, request.path_params["name"])
    disposition = f"attachment; filename*=UTF-8''{quote(finished.name, safe='')}"
    headers = {"Content-Disposition": disposition, "X-Content-Type-Options": "nosniff"}
    return Response(finished.content, headers=headers, media_type=finished.media_type)


ROUTES = [
    Route("/translate", translate, methods=["POST"]),
    Route("/suggest", suggest, methods=["POST"]),
    Route("/detect", detect, methods=["POST"]),
    Route("/languages", languages),
    Route("/languages", languages, methods=["POST"], include_in_schema=False),  # libretranslatepy 2.1.1
    Route("/frontend/settings", settings),
    Route(FILE_PATH, translate_file, methods=["POST"]),
    Route("/download_file/{name}", download_file, include_in_schema=False),
]


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
    if any(answer.via for answer in answers):
        body["via"] = field(lambda answer: answer.via)
    if request.report:
        body["report"] = field(lambda answer: answer.report)
    if request.alignment:
        body["alignment"] = field(lambda answer: answer.alignment)
    return body


def append_suggestion(path: Path, source: str, target: str, text: str, translation: str, key: str) -> None:
    """Adds a line to a JSONL file that `shard` reads: a text and its translation by language, and the name of the key.

    The line is whole or not there, whoever else writes. Raises OSError: it cannot be written, or the file is full.
    """
    line = orjson.dumps({source: text, target: translation, "key": key}, option=orjson.OPT_APPEND_NEWLINE)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = os.fstat(file).st_size
        if size + len(line) > MOST:
            raise OSError(f"{path}: has {size:,} bytes, as many as suggestions may take; move it away")
        try:
            if os.write(file, line) != len(line):
                raise OSError(f"{path}: the disk is full")
        except OSError:
            os.ftruncate(file, size)
            raise
    finally:
        os.close(file)
