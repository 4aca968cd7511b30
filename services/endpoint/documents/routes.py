"""LibreTranslate's routes for documents: /translate_file translates one, /download_file gives the translation."""

import asyncio
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dragoman.services.endpoint.call import admit
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.endpoint.requests import FileRequest, validate
from dragoman.services.http.answers import as_json

PATH = "/translate_file"


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
    Route(PATH, translate_file, methods=["POST"]),
    Route("/download_file/{name}", download_file, include_in_schema=False),
]
