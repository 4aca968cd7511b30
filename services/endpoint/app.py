"""The endpoint's HTTP interface: LibreTranslate's for a translation model, and our own for word vectors.

    POST /translate   GET /languages   POST /detect   GET /frontend/settings      (libretranslate.py)
    POST /translate_file   GET /download_file/{name}      (document_routes.py)
    POST /next   POST /fill                                                       (guess_routes.py)
    POST /classify   POST /tag   POST /models/{model}                             (label_routes.py)
    GET /vectors/{word}   GET, POST /neighbours   GET, POST /analogy              (vector_routes.py)
    GET /health   GET /status   GET /models   GET /metrics   GET /spec
    GET, POST /, for browsers                                                     (page/routes.py)

An answer's headers name the model version, the run, and the manifest of the shards that it was trained on.
"""

import logging
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from dragoman.model.errors import ServiceError
from dragoman.services.endpoint import (
    document_routes,
    guess_routes,
    hooks,
    label_routes,
    libretranslate,
    openapi,
    schemas,
    vector_routes,
)
from dragoman.services.endpoint.answer import refusal
from dragoman.services.endpoint.call import admissions
from dragoman.services.endpoint.dialects import (
    deepl,
    deepl_documents,
    deepl_glossaries,
    deepl_languages,
    google,
    google_v3,
    openai,
    scoring,
)
from dragoman.services.endpoint.dialects.deepl_requests import IGNORED
from dragoman.services.endpoint.document_routes import FORM, PATHS
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.keys import KeyRefusedError
from dragoman.services.endpoint.metrics import NOT_REFUSALS
from dragoman.services.endpoint.page import routes as page
from dragoman.services.http.answers import as_json
from dragoman.services.http.documentation import add_documentation
from dragoman.services.http.wrapper import REFUSED, Rules, Wrapper
from dragoman.services.telemetry.telemetry import FORMAT, UNMEASURED
from dragoman.services.version import version

ROUTES: Sequence[Any] = (
    *(deepl, deepl_glossaries, google, google_v3, scoring, openai),
    *(guess_routes, vector_routes, label_routes, hooks, page),
)
DOCUMENT_ROUTES: Sequence[Any] = (libretranslate, document_routes, deepl_documents, deepl_languages)
GLOSSARIES = ("/v2/glossaries", "/v3/glossaries")
logger = logging.getLogger(__name__)
ASKED_BY_HEAD = (  # what costs nothing and deletes nothing
    *("/", "/docs", "/spec", "/models", "/languages", "/frontend/settings"),
    *("/health", "/status", "/metrics", "/ping", "/version"),
)


def create_app(endpoint: Endpoint, documents: Documents | None = None) -> Wrapper:
    """Makes the application. Its caller starts and stops the threads of the batchers and of the documents."""
    documents = documents or Documents(endpoint, None)
    app = make_routes(endpoint, documents)
    larger = dict.fromkeys(GLOSSARIES, max(endpoint.limits.glossary, endpoint.limits.body))
    larger |= dict.fromkeys(PATHS, endpoint.limits.document + FORM)
    rules = Rules(
        limit=endpoint.limits.body,
        patience=endpoint.config.receive_timeout,
        refuse=refuse,
        larger=larger,
        admit=admissions(endpoint),
        count=endpoint.metrics.refuse,
        uncounted=NOT_REFUSALS,
        head=frozenset(ASKED_BY_HEAD),
        origins=endpoint.config.origins,
        exposed=[*openapi.ORIGIN, IGNORED],
        log=endpoint.config.access_log,
    )
    return Wrapper(app, rules, endpoint.metrics.telemetry)


def refuse(request: Request, problem: Exception) -> Response | None:
    """Returns the answer to an error in the form of the request's dialect; None for an unexpected one."""
    path = request.scope["path"]
    if isinstance(problem, ServiceError):
        logger.error("%s", problem)  # a database's words; they name no text and no key
        return refusal(503, "The server's database does not answer", path=path)
    if not isinstance(problem, HTTPException):
        return None
    reason = problem.reason if isinstance(problem, KeyRefusedError) else ""
    if reason:
        request.scope[REFUSED] = reason
    return refusal(problem.status_code, problem.detail, problem.headers, path, reason)


async def answer_problem(request: Request, problem: Exception) -> Response:
    """Answers errors of FastAPI's own routes, such as an unknown address."""
    response = refuse(request, problem)
    assert response is not None, "registered for HTTP's own errors"
    return response


def make_routes(endpoint: Endpoint, documents: Documents) -> FastAPI:
    """Returns all routes, as FastAPI describes them."""
    app = FastAPI(
        title="Dragoman",
        version=version(),
        docs_url=None,
        redoc_url=None,
        telemetry=UNMEASURED,  # type: ignore[arg-type]  # a dictionary of its keys
    )

    @app.get(
        "/health",
        summary="Health check: 200 if every served model answers",
        responses=openapi.state_answers(schemas.Health),
    )
    async def health(_: Request) -> Response:
        code, body = endpoint.status()
        return as_json({"status": body["status"]}, code)

    @app.get("/status", summary="The served models and their origin", responses=openapi.state_answers(schemas.Status))
    async def status(_: Request) -> Response:
        code, body = endpoint.status()
        return as_json({**body, "dragoman": app.version}, code)

    async def models(_: Request) -> Response:
        return as_json([] if endpoint.models is None else [model.facts() for model in endpoint.models.models])

    openapi.Routes(app).add("GET", "/models", models, "The translation models", schemas.many(schemas.Model))

    @app.get("/metrics", include_in_schema=False)
    async def metrics(_: Request) -> Response:
        return Response(endpoint.metrics.telemetry.text(), headers={"Content-Type": FORMAT})

    @app.get("/spec", include_in_schema=False)
    async def spec(_: Request) -> Response:
        document = app.openapi()  # LibreTranslate's clients know an instance by this title
        return as_json({**document, "info": {**document["info"], "title": "LibreTranslate"}})

    for module in ROUTES:
        module.add_routes(app, endpoint)
    for module in DOCUMENT_ROUTES:
        module.add_routes(app, documents)
    add_documentation(app)
    app.add_exception_handler(HTTPException, answer_problem)
    return app
