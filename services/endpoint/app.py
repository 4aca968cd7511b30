"""The endpoint's HTTP interface, as Starlette's routes.

    POST /translate, /detect, /suggest   GET /languages, /frontend/settings        (libretranslate.py)
    POST /translate_file   GET /download_file/{name}                               (the same)
    POST /v2/translate   GET /v2/languages, /v2/usage                              (deepl.py)
    POST /invocations   GET /ping, /version                                        (scoring.py)
    GET /health, /status, /models, /metrics, /openapi.json, /spec, /docs           (state.py)
    GET, POST /, for browsers                                                      (page/routes.py)

An answer's headers name the model version, the run, and the manifest of the shards that it was trained on.
"""

import logging
from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from dragoman.model.errors import ServiceError
from dragoman.model.storage.places import is_loopback
from dragoman.services.endpoint import deepl, libretranslate, scoring, state
from dragoman.services.endpoint.call import endpoint_of
from dragoman.services.endpoint.deepl_requests import IGNORED
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.keys import KeyRefusedError
from dragoman.services.endpoint.openapi import ORIGIN
from dragoman.services.endpoint.page import routes as page
from dragoman.services.http.answers import as_json, error
from dragoman.services.http.connections import Clients
from dragoman.services.http.documentation import documentation_routes
from dragoman.services.http.middleware import INTERNAL, Guard

FORM = 65_536  # bytes of a form beside its document
DAY = 86_400  # seconds that a browser remembers which pages may ask
MLFLOW_CODES = {400: "BAD_REQUEST", 403: "PERMISSION_DENIED", 404: "ENDPOINT_NOT_FOUND", 429: "REQUEST_LIMIT_EXCEEDED"}
QUOTA = 456  # DeepL's status for a key whose characters are used up
logger = logging.getLogger(__name__)


def create_app(endpoint: Endpoint, documents: Documents | None = None) -> Starlette:
    """Makes the application. Its caller starts and stops the threads of the batcher."""
    config, limits = endpoint.config, endpoint.limits
    guard = Middleware(
        Guard,
        telemetry=endpoint.metrics.telemetry,
        limit=limits.body,
        larger={libretranslate.FILE_PATH: limits.document + FORM},
        seconds=config.receive_timeout,
        clients=Clients(config.per_address, config.proxies),
        private=lambda: is_loopback(config.host) and not endpoint.keys.needed,
        fail=lambda request: refuse(endpoint, request, HTTPException(500, INTERNAL)),
        log=config.access_log,
    )
    cors = Middleware(
        CORSMiddleware,
        allow_origins=config.origins,
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
        expose_headers=[*ORIGIN, IGNORED],
        max_age=DAY,
    )
    app = Starlette(
        routes=[
            *libretranslate.ROUTES,
            *deepl.ROUTES,
            *scoring.ROUTES,
            *state.ROUTES,
            *documentation_routes(),
            *(page.ROUTES if config.page else ()),
        ],
        middleware=[guard, *([cors] if config.origins else [])],
        exception_handlers={HTTPException: answer_problem, ServiceError: answer_problem},
    )
    app.state.endpoint = endpoint
    app.state.documents = documents or Documents(endpoint, None)
    return app


async def answer_problem(request: Request, problem: Exception) -> Response:
    """Answers an error in the form of the request's dialect."""
    if isinstance(problem, ServiceError):
        logger.error("%s", problem)  # a database's words; they name no text and no key
        problem = HTTPException(503, "The server's database does not answer")
    assert isinstance(problem, HTTPException), "registered for these two"
    return refuse(endpoint_of(request), request, problem)


def refuse(endpoint: Endpoint, request: Request, problem: HTTPException) -> Response:
    """Counts a refusal, and returns its answer."""
    reason = problem.reason if isinstance(problem, KeyRefusedError) else ""
    endpoint.metrics.refuse(problem.status_code, reason)
    return refusal(problem.status_code, problem.detail, problem.headers, request.url.path, reason)


def refusal(
    status: int, message: str, headers: Mapping[str, str] | None = None, path: str = "", reason: str = ""
) -> Response:
    """Returns an error answer in the form of the path's dialect; `reason`: why a key refused the request."""
    if path.startswith("/v2/"):
        return as_json({"message": message}, QUOTA if reason == "characters" else status, headers)
    if path == "/invocations":
        code = MLFLOW_CODES.get(status, "BAD_REQUEST" if status < 500 else "INTERNAL_ERROR")
        return as_json({"error_code": code, "message": message}, status, headers)
    return as_json(error(status, message), status, headers)
