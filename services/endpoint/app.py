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

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from dragoman.model.errors import ServiceError
from dragoman.services.endpoint import openapi
from dragoman.services.endpoint.access_log import AccessLog
from dragoman.services.endpoint.answer import NO_KEY, OVER_QUOTA, as_json, form_of, openai, refusal
from dragoman.services.endpoint.body_limit import BodyLimit
from dragoman.services.endpoint.dialects.deepl import add_deepl_routes
from dragoman.services.endpoint.dialects.deepl_documents import add_deepl_document_routes
from dragoman.services.endpoint.dialects.deepl_glossaries import add_glossary_routes
from dragoman.services.endpoint.dialects.deepl_languages import add_deepl_language_routes
from dragoman.services.endpoint.dialects.deepl_requests import IGNORED
from dragoman.services.endpoint.dialects.google import add_google_routes
from dragoman.services.endpoint.dialects.google_v3 import add_google_v3_routes
from dragoman.services.endpoint.dialects.openai import add_openai_routes
from dragoman.services.endpoint.dialects.scoring import add_scoring_routes
from dragoman.services.endpoint.document_routes import FORM, PATHS, add_document_routes
from dragoman.services.endpoint.documentation import add_documentation
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.guess_routes import add_guess_routes
from dragoman.services.endpoint.head import Head
from dragoman.services.endpoint.hooks import add_hooks
from dragoman.services.endpoint.keys import KeyRefusedError
from dragoman.services.endpoint.label_routes import add_label_routes
from dragoman.services.endpoint.lean_routes import LeanRoutes
from dragoman.services.endpoint.libretranslate import add_libretranslate_routes
from dragoman.services.endpoint.metrics import Refusals
from dragoman.services.endpoint.page.routes import add_page
from dragoman.services.endpoint.vector_routes import add_vector_routes
from dragoman.services.telemetry.telemetry import FORMAT
from dragoman.services.version import version

GLOSSARIES = ("/v2/glossaries", "/v3/glossaries")
DAY = 86_400  # seconds that a browser remembers who may ask
NO_KEY_REASONS = ("missing", "unknown")
logger = logging.getLogger(__name__)
ASKED_BY_HEAD = (  # what costs nothing and deletes nothing
    *("/", "/docs", "/spec", "/models", "/languages", "/frontend/settings"),
    *("/health", "/status", "/metrics", "/ping", "/version"),
)
LEAN = ("/translate",)  # POST routes that are answered in front of the middleware


def create_lean_app(endpoint: Endpoint, documents: Documents | None = None) -> ASGIApp:
    """Makes the application with its busiest routes in front; the whole one if spans are sent to a collector."""
    app = create_app(endpoint, documents)
    telemetry = endpoint.metrics.telemetry
    return app if telemetry.tracers is not None else LeanRoutes(app, LEAN, endpoint)


def create_app(endpoint: Endpoint, documents: Documents | None = None) -> FastAPI:
    """Makes the application. Its caller starts and stops the threads of the batchers and of the documents."""
    documents = documents or Documents(endpoint, None)
    telemetry = endpoint.metrics.telemetry
    app = FastAPI(
        title="Dragoman",
        version=version(),
        docs_url=None,
        redoc_url=None,
        telemetry=telemetry.make_fastapi_options(),  # type: ignore[arg-type]  # a dictionary of its keys
    )
    larger = dict.fromkeys(GLOSSARIES, max(endpoint.limits.glossary, endpoint.limits.body))
    larger |= dict.fromkeys(PATHS, endpoint.limits.document + FORM)
    app.add_middleware(Head, paths=ASKED_BY_HEAD)
    app.add_middleware(BodyLimit, limit=endpoint.limits.body, patience=endpoint.receive_timeout, others=larger)
    app.add_middleware(AccessLog, lines=endpoint.access_log)
    app.add_middleware(Refusals, count=endpoint.metrics.refuse)
    if endpoint.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=endpoint.origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=[*openapi.ORIGIN, IGNORED],
            max_age=DAY,
        )

    @app.exception_handler(HTTPException)
    async def refuse(request: Request, problem: HTTPException) -> Response:
        path, status = request.url.path, problem.status_code
        if isinstance(problem, KeyRefusedError):
            if problem.reason == "characters":
                status = OVER_QUOTA
            elif problem.reason in NO_KEY_REASONS and form_of(path) is openai:
                status = NO_KEY
        return refusal(status, problem.detail, problem.headers, path)

    @app.exception_handler(ServiceError)
    async def refuse_for_now(request: Request, problem: ServiceError) -> Response:
        logger.error("%s", problem)  # a database's words; they name no text and no key
        return refusal(503, "The server's database does not answer", path=request.url.path)

    @app.get(
        "/health",
        summary="Health check: 200 if every served model answers",
        responses=openapi.state_answers(openapi.HEALTH),
    )
    async def health() -> Response:
        code, body = endpoint.status()
        return as_json({"status": body["status"]}, code)

    @app.get("/status", summary="The served models and their origin", responses=openapi.state_answers(openapi.STATUS))
    async def status() -> Response:
        code, body = endpoint.status()
        return as_json({**body, "dragoman": app.version}, code)

    @app.get("/models", summary="The translation models", responses=openapi.answers(openapi.array_of(openapi.MODEL)))
    async def models() -> Response:
        return as_json([] if endpoint.models is None else [one.facts() for one in endpoint.models.models])

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(telemetry.text(), headers={"Content-Type": FORMAT})

    @app.get("/spec", include_in_schema=False)
    async def spec() -> Response:
        document = app.openapi()  # LibreTranslate's clients know an instance by this title
        return as_json({**document, "info": {**document["info"], "title": "LibreTranslate"}})

    add_libretranslate_routes(app, endpoint, documents)
    add_document_routes(app, documents)
    add_deepl_routes(app, endpoint)
    add_deepl_document_routes(app, documents)
    add_deepl_language_routes(app, endpoint, documents=documents.folder is not None)
    add_glossary_routes(app, endpoint)
    add_google_routes(app, endpoint)
    add_google_v3_routes(app, endpoint)
    add_scoring_routes(app, endpoint)
    add_openai_routes(app, endpoint)
    add_guess_routes(app, endpoint.guesser, endpoint.limits, endpoint.keys)
    add_vector_routes(app, endpoint.vectors, endpoint.limits, endpoint.keys)
    add_label_routes(app, endpoint.labels, endpoint.limits, endpoint.keys)
    add_hooks(app, endpoint)
    add_documentation(app)
    if endpoint.page:
        add_page(app, endpoint)
    return app
