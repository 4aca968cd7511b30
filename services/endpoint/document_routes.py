"""LibreTranslate's routes for documents: /translate_file waits for the translation, /download_file gives it."""

import asyncio
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from pydantic import Field
from starlette.exceptions import HTTPException

from dragoman.services.endpoint import openapi, schemas
from dragoman.services.endpoint.call import FileCall
from dragoman.services.endpoint.documents.documents import DISABLED, Documents, Finished, State
from dragoman.services.endpoint.documents.jobs import ID, Handle
from dragoman.services.endpoint.requests import Language, Parameters, validate
from dragoman.services.endpoint.translation import Question
from dragoman.services.http.answers import as_json

LOOK = 0.1  # seconds between two looks at a job
FORM = 65_536  # bytes of a form beside its document
PATHS = ("/translate_file", "/v2/document")  # whose bodies hold documents


class FileRequest(Parameters):
    """The parameters of /translate_file beside the file."""

    source: Language = Field(description="or auto", examples=["en"])
    target: Language = Field(examples=["de"])


def add_routes(app: FastAPI, documents: Documents) -> None:
    async def translate_file(call: FileCall) -> Response:
        if documents.folder is None:
            raise HTTPException(403, DISABLED)
        if not call.name:
            raise HTTPException(400, "Invalid request: empty file")
        request = validate(FileRequest, call.parameters)
        question = Question((), None if request.source == "auto" else request.source, request.target, key=call.key)
        handle = await asyncio.to_thread(documents.submit, call.name, call.content, question)
        done = await _wait(documents, handle)
        notes = {"notes": done.notes} if done.notes else {}
        place = f"{''.join(handle)}.{quote(done.name)}"
        return as_json({"translatedFileUrl": f"{call.base_url}download_file/{place}", **notes})

    about = "Translate a document, its layout kept"
    routes = openapi.Routes(app)
    routes.add("POST", "/translate_file", translate_file, about, schemas.TranslatedFile, in_form(FileRequest))

    @app.get("/download_file/{name}", include_in_schema=False)
    async def download_file(request: Request) -> Response:
        secret = request.path_params["name"].partition(".")[0]
        finished = await asyncio.to_thread(documents.result, secret[:ID], secret[ID:], keep=True)
        return document_response(finished)


def in_form(schema_class: type[Parameters]) -> openapi.Schema:
    """Returns a request with these parameters and a file in a form."""
    schema = schema_class.model_json_schema()
    schema["properties"]["file"] = {"type": "string", "format": "binary"}
    schema["required"] = [*schema.get("required", ()), "file"]
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


def document_response(finished: Finished) -> Response:
    """Returns a translated document as an attachment: a page that was translated must not run here as one of ours."""
    disposition = f"attachment; filename*=UTF-8''{quote(finished.name, safe='')}"
    headers = {"Content-Disposition": disposition, "X-Content-Type-Options": "nosniff"}
    return Response(finished.content, headers=headers, media_type=finished.media_type)


async def _wait(documents: Documents, handle: Handle) -> State:
    """Returns the job's state once the translated file is there; deletes the job if the client leaves.

    Raises HTTPException: it cannot be translated.
    """
    try:
        while True:
            state = await asyncio.to_thread(documents.state, *handle)
            if state.status == "error":
                raise HTTPException(400, f"Cannot translate document: {state.error}")
            if state.status == "done":
                return state
            await asyncio.sleep(LOOK)
    except BaseException:
        documents.jobs.delete(handle.id)
        raise
