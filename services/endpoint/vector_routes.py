"""The routes of word vectors: GET /vectors/{word}, GET and POST /neighbours, GET and POST /analogy.

Search is exact, one matrix product for all waiting questions, on the thread of the vectors' own batcher, so
translations go on beside it.
"""

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Response
from starlette.exceptions import HTTPException

from dragoman.services.endpoint import schemas
from dragoman.services.endpoint.call import Call
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.openapi import Routes
from dragoman.services.endpoint.requests import validate
from dragoman.services.endpoint.vector_requests import AnalogyRequest, NeighboursRequest, SearchRequest
from dragoman.services.http.answers import as_json
from dragoman.services.models.loaded_vectors import Refused
from dragoman.services.models.questions import Question, VectorOf

NO_VECTORS = "This endpoint has no word vectors (the server's setting serve.vectors names some)"


def add_routes(app: FastAPI, endpoint: Endpoint) -> None:
    """Adds the routes; without a queue they answer that there are no vectors here."""
    queue, keys = endpoint.vectors, endpoint.keys

    async def answer_question(call: Call, question: Question) -> Response:
        assert queue is not None, "checked by `charge`"
        served = queue.model()
        (answer,) = await queue.ask(served, [question], key=call.key)
        if isinstance(answer, Refused):
            raise HTTPException(answer.status, answer.message)
        return as_json(answer, headers=served.origin.headers())

    def charge(call: Call) -> None:
        keys.charge(call.key)
        if queue is None:
            raise HTTPException(404, NO_VECTORS)

    async def vector(call: Call) -> Response:
        charge(call)
        return await answer_question(call, VectorOf(call.path_params["word"]))

    def search(model: type[SearchRequest]) -> Callable[[Call], Awaitable[Response]]:
        async def answer(call: Call) -> Response:
            charge(call)
            return await answer_question(call, validate(model, call.parameters).question())

        return answer

    routes, kind = Routes(app), schemas.DenseVector | schemas.SparseVector
    key = {"parameters": [{"name": "api_key", "in": "query", "schema": {}}]}
    routes.add("GET", "/vectors/{word:path}", vector, "A word's vector, rank and count", kind, key, origin=True)
    for path, request_class, answer_class, summary in (
        ("/neighbours", NeighboursRequest, schemas.Neighbours, "The nearest words to a word or a vector, by cosine"),
        ("/analogy", AnalogyRequest, schemas.Analogy, "Words that are to c as b is to a"),
    ):
        model = request_class.within(endpoint.limits)
        routes.add("GET POST", path, search(model), summary, answer_class, model, origin=True)
