"""The routes of word vectors: GET /vectors/{word}, GET and POST /neighbours, GET and POST /analogy.

Search is exact, one matrix product for all questions that wait, on the thread of the vectors' own batcher: translations
go on beside it.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from services.endpoint import openapi
from services.endpoint.answer import as_json
from services.endpoint.inference_queue import Desk
from services.endpoint.requests import check_key, parameters
from services.endpoint.vector_ask import read_analogy, read_neighbours
from services.models.questions import Question, VectorOf
from services.models.served_vectors import Refused, ServedVectors
from services.settings import Limits

VectorsDesk: TypeAlias = Desk[ServedVectors, Question, dict[str, Any] | Refused]

NO_VECTORS = "This endpoint has no word vectors (the server's setting serve.vectors names some)"


def add_vector_routes(app: FastAPI, desk: VectorsDesk | None, limits: Limits, keys: Sequence[str]) -> None:
    """Add the routes; without a desk they say that there are no vectors here."""

    def open_desk() -> VectorsDesk:
        if desk is None:
            raise HTTPException(404, NO_VECTORS)
        return desk

    async def answered(question: Question) -> Response:
        served = open_desk().model()
        (answer,) = await open_desk().ask(served, [question])
        if isinstance(answer, Refused):
            raise HTTPException(answer.status, answer.message)
        return as_json(answer, headers=served.origin.headers())

    async def checked(request: Request) -> dict[str, Any]:
        values = await parameters(request)
        check_key(values, keys)
        open_desk()
        return values

    async def vector(request: Request) -> Response:
        await checked(request)
        return await answered(VectorOf(request.path_params["word"]))

    async def neighbours(request: Request) -> Response:
        return await answered(read_neighbours(await checked(request), limits))

    async def analogy(request: Request) -> Response:
        return await answered(read_analogy(await checked(request), limits))

    app.get(
        "/vectors/{word:path}",
        summary="A word's vector, rank and count",
        responses=openapi.answers(openapi.VECTOR, origin=True),
        openapi_extra=openapi.vector_asked(),
    )(vector)
    for path, answer, asked, found, summary in (
        (
            "/neighbours",
            neighbours,
            openapi.neighbours_asked(limits),
            openapi.NEIGHBOURS,
            "The nearest words to a word or a vector, by cosine",
        ),
        ("/analogy", analogy, openapi.analogy_asked(limits), openapi.ANALOGY, "What is to c as b is to a"),
    ):
        told = openapi.answers(found, origin=True)
        app.get(path, summary=summary, responses=told, openapi_extra=openapi.in_query(asked))(answer)
        app.post(path, summary=summary, responses=told, openapi_extra=openapi.in_body(asked))(answer)
