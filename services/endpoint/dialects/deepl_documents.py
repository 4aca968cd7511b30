"""DeepL's routes of documents: /v2/document takes one, below it stand its status and its translation."""

import asyncio
from pathlib import PurePath
from typing import Any

from fastapi import FastAPI, Response
from starlette.exceptions import HTTPException

from dragoman.services.endpoint.answer import DEEPL
from dragoman.services.endpoint.call import Call, FileCall
from dragoman.services.endpoint.dialects import schemas
from dragoman.services.endpoint.dialects.deepl_requests import NAMES, WORDING, DocumentKeyRequest, DocumentRequest
from dragoman.services.endpoint.dialects.questions import check_pair, glossary_of
from dragoman.services.endpoint.document_routes import document_response, in_form
from dragoman.services.endpoint.documents.documents import Documents, State
from dragoman.services.endpoint.openapi import Routes
from dragoman.services.endpoint.requests import validate
from dragoman.services.endpoint.translation import Question
from dragoman.services.http.answers import as_json
from dragoman.services.texts.documents.kinds import same_kind
from dragoman.services.texts.options import TextOptions

PATH = "/v2/document"


def add_routes(app: FastAPI, documents: Documents) -> None:
    """Adds the routes, with DeepL's parameters, answers and messages."""
    endpoint = documents.endpoint

    async def upload(call: FileCall) -> Response:
        request = validate(DocumentRequest, call.parameters, WORDING)
        check_pair(endpoint, request.source_lang, request.target_lang, NAMES, WORDING.wrong)
        name = call.name or request.filename
        if not name:
            raise HTTPException(400, "Invalid file data.")
        ending = PurePath(name).suffix
        if request.output_format and not same_kind(ending, f".{request.output_format}"):
            message = f"Value for 'output_format' not supported: a {ending} file is translated as a {ending} file."
            raise HTTPException(400, message)
        languages = request.source_lang, request.target_lang
        options = TextOptions(glossary=await glossary_of(endpoint, call.key, request.glossaries, *languages))
        question = Question((), request.source_lang, request.target_lang, options=options, key=call.key)
        handle = await asyncio.to_thread(documents.submit, name, call.content, question)
        return as_json({"document_id": handle.id, "document_key": handle.key}, headers=request.ignored())

    async def show_status(call: Call) -> Response:
        return as_json(status_record(*await ask(call, documents.state)))

    async def download(call: Call) -> Response:
        _, finished = await ask(call, documents.result)
        return document_response(finished)

    async def ask(call: Call, function: Any) -> tuple[str, Any]:
        """Returns the document's id, and what `function` says of it for the request's document key."""
        key = validate(DocumentKeyRequest, call.parameters, WORDING).document_key
        identity: str = call.path_params["document"]
        return identity, await asyncio.to_thread(function, identity, key)

    routes = Routes(app, "DeepL: ", DEEPL)
    routes.add("POST", PATH, upload, "translate a document", schemas.DeepLDocument, in_form(DocumentRequest))
    for path, function, about, kind in (
        (f"{PATH}/{{document}}", show_status, "how far a document is", schemas.DeepLDocumentStatus),
        (f"{PATH}/{{document}}/result", download, "the translated document", Any),
    ):
        routes.add("POST", path, function, about, kind, DocumentKeyRequest)
        app.get(path, include_in_schema=False)(function)


def status_record(identity: str, state: State) -> dict[str, Any]:
    """Returns a document's state as DeepL shows it."""
    record: dict[str, Any] = {"document_id": identity, "status": state.status}
    if state.status == "translating":
        record["seconds_remaining"] = state.seconds_left
    elif state.status == "done":
        record |= {"seconds_remaining": 0, "billed_characters": state.characters}
        record |= {"notes": state.notes} if state.notes else {}
    elif state.status == "error":
        record |= {"error_message": state.error, "message": state.error}
    return record
