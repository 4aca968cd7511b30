"""The routes of word vectors: GET /vectors/{word}, GET and POST /neighbours, GET and POST /analogy.

Search is exact, one matrix product for all questions that wait, on the thread of the vectors' own batcher: translations
go on beside it.
"""

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from model.vectors.embeddings import METHODS
from services.ask import check_key, parameters, plain_text
from services.desk import Desk
from services.questions import Question, VectorOf
from services.served_vectors import Refused, ServedVectors
from services.settings import Limits
from services.vector_ask import read_analogy, read_neighbours

VectorsDesk: TypeAlias = Desk[ServedVectors, Question, dict[str, Any] | Refused]

NO_VECTORS = "This endpoint has no word vectors (the server's setting serve.vectors names some)"
WORD, WHOLE = {"type": "string"}, {"type": "integer", "minimum": 0}
COMMON = {"k": {"type": "integer", "minimum": 1}, "restrict": WHOLE, "api_key": WORD}
NEIGHBOURS = {
    "word": {**WORD, "example": "dog"},
    "vector": {"type": "array", "items": {"type": "number"}, "description": "instead of word"},
    "exclude": {"type": "array", "items": WORD},
    **COMMON,
}
ANALOGY = {
    "a": {**WORD, "example": "man", "description": "a is to b as c is to the answers"},
    "b": {**WORD, "example": "king"},
    "c": {**WORD, "example": "woman"},
    "method": {"type": "string", "enum": list(METHODS)},
    **COMMON,
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"description": "a parameter is missing, of a wrong type or over a limit"},
    403: {"description": "no API key, or a wrong one"},
    404: {"description": "an unknown word, with known ones that are written alike; or no word vectors here"},
    429: {"description": "too many wait: Retry-After says when to come again"},
    503: {"description": "no vectors are loaded yet, or no answer in time"},
}


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
        body = json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()
        return Response(body, 200, served.origin.headers(), media_type="application/json")

    async def checked(request: Request) -> dict[str, Any]:
        values = await parameters(request)
        check_key(values, keys)
        open_desk()
        return values

    async def vector(request: Request, word: str) -> Response:
        await checked(request)
        return await answered(VectorOf(plain_text(word)))

    async def neighbours(request: Request) -> Response:
        return await answered(read_neighbours(await checked(request), limits))

    async def analogy(request: Request) -> Response:
        return await answered(read_analogy(await checked(request), limits))

    app.get("/vectors/{word:path}", responses=REFUSALS, summary="A word's vector, rank and count")(vector)
    for path, answer, fields, needed, summary in (
        ("/neighbours", neighbours, NEIGHBOURS, (), "The nearest words to a word or a vector, by cosine"),
        ("/analogy", analogy, ANALOGY, ("a", "b", "c"), "What is to c as b is to a"),
    ):
        asked = {"parameters": _in_query(fields, needed)}
        sent = {"requestBody": _in_body(fields, needed)}
        app.get(path, responses=REFUSALS, summary=summary, openapi_extra=asked)(answer)
        app.post(path, responses=REFUSALS, summary=summary, openapi_extra=sent)(answer)


def _in_query(fields: dict[str, Any], needed: Sequence[str]) -> list[dict[str, Any]]:
    """The fields as OpenAPI parameters; a list of numbers is a body's only."""
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": schema}
        for name, schema in fields.items()
        if name != "vector"
    ]


def _in_body(fields: dict[str, Any], needed: Sequence[str]) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, **({"required": list(needed)} if needed else {})}
    return {"content": {"application/json": {"schema": schema}}}
