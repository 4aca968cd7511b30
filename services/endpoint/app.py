"""The endpoint's HTTP interface: LibreTranslate's for a translation model, and our own for word vectors.

    POST /translate   GET /languages   POST /detect   GET /frontend/settings   GET /health   GET /spec
    GET /metrics
    GET /status       GET /vectors/{word}   GET, POST /neighbours   GET, POST /analogy   (vector_routes.py)

`Endpoint` holds the queues and settings; `create_app` makes the FastAPI application. An answer's headers name the model
version, the run, and the manifest of the shards that it was trained on.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from model.errors import UserError
from model.inference.losses import Losses
from model.inference.translator import Translation
from model.languages import nearest, standard_code
from model.text.sentences import Piece, join, split
from services.endpoint import openapi
from services.endpoint.access_log import AccessLog
from services.endpoint.answer import as_json, refusal
from services.endpoint.body_limit import BodyLimit
from services.endpoint.documentation import add_documentation
from services.endpoint.inference_queue import InferenceQueue
from services.endpoint.languages import language_name
from services.endpoint.metrics import Metrics, Refusals
from services.endpoint.requests import DetectionRequest, TranslationRequest, check_key, parameters, validate
from services.endpoint.vector_routes import VectorsQueue, add_vector_routes
from services.models.loaded_model import LoadedModel
from services.settings import Limits
from services.telemetry.telemetry import FORMAT
from services.version import version

logger = logging.getLogger(__name__)

NO_TRANSLATION = "This endpoint answers questions about word vectors only: it has no translation model"
NOTHING: dict[str, Any] = {"status": "off", "model": None, "reload_error": None, "queued": 0}  # /status without one


@dataclass
class Endpoint:
    """The application's parts: the queue of translations, that of word vectors, or both, and the settings."""

    translations: InferenceQueue[LoadedModel, str, Translation] | None
    vectors: VectorsQueue | None = None
    limits: Limits = field(default_factory=Limits)
    keys: Sequence[str] = ()  # API keys; none: no key is needed
    longest: int = 400  # characters of a sentence before it is cut further
    receive_timeout: float = 15.0  # seconds for a request's body to arrive
    access_log: bool = False  # log one line per request
    metrics: Metrics = field(default_factory=Metrics)

    def queue(self) -> InferenceQueue[LoadedModel, str, Translation]:
        """Returns the queue of translations.

        Raises:
            HTTPException: 404, no translation model is served.
        """
        if self.translations is None:
            raise HTTPException(404, NO_TRANSLATION)
        return self.translations

    async def translate(self, request: TranslationRequest) -> tuple[dict[str, Any], LoadedModel]:
        """Returns LibreTranslate's answer, and the model that gave it.

        Raises:
            HTTPException: a language that the model lacks, a full queue, or a timeout.
        """
        served = self.queue().model()
        if request.source != "auto" and not nearest(request.source, (served.source,)):
            raise HTTPException(400, f"{request.source} is not supported")
        if not nearest(request.target, (served.target,)):
            raise HTTPException(400, f"{request.target} is not supported")
        answering = await self._load_aligning(served) if request.aligned else served
        alternatives = min(request.alternatives, served.most_alternatives)
        pieces = [split(text, self.longest, served.source) for text in request.texts]
        lines = [piece.text for text in pieces for piece in text if piece.text]
        with self.metrics.telemetry.span("inference", lines=len(lines), model=served.origin.name):
            translations = await self.queue().ask(answering, lines, alternatives + 1)
        for translation in translations:
            if translation.error:
                logger.error("a line could not be translated: %s", translation.error)
                raise HTTPException(500, f"Cannot translate text: {translation.error}")
        found = iter(translations)
        parts = [[next(found) if piece.text else Translation("", 0.0) for piece in text] for text in pieces]
        answers = [_rebuild_text(text, own, alternatives) for text, own in zip(pieces, parts, strict=True)]

        self.metrics.characters.labels("in").inc(sum(map(len, request.texts)))
        self.metrics.characters.labels("out").inc(sum(len(best) for best, _ in answers))
        answer: dict[str, Any] = {"translatedText": [best for best, _ in answers] if request.batch else answers[0][0]}
        if request.source == "auto":
            language = {"confidence": 0.0, "language": standard_code(served.source)}  # assumed, not detected
            answer["detectedLanguage"] = [language] * len(answers) if request.batch else language
        if request.alternatives:
            answer["alternatives"] = [others for _, others in answers] if request.batch else answers[0][1]
        losses = [Losses("sentence") for _ in pieces]
        for lost, text, own in zip(losses, pieces, parts, strict=True):
            for piece, part in zip(text, own, strict=True):
                lost.add(piece.text, part)
        self.metrics.lose(losses)
        records = [lost.record() for lost in losses]
        if any(records):  # LibreTranslate's clients know no such field, and most answers have none
            answer["losses"] = records if request.batch else records[0]
        if request.aligned:
            maps = [[one.record() for part in own for one in part.attention] for own in parts]  # one per sentence
            answer["alignment"] = maps if request.batch else maps[0]
        return answer, served

    async def _load_aligning(self, served: LoadedModel) -> LoadedModel:
        """Returns the model with attention; loading it first holds up no other request.

        Raises:
            HTTPException: 400, the model has no attention.
        """
        try:
            return await asyncio.to_thread(lambda: served.aligning)
        except UserError as problem:
            raise HTTPException(400, f"alignment is not supported: {problem}") from None

    def status(self) -> tuple[int, dict[str, Any]]:
        """Returns status code and body of /status: 200 only if every served model answers."""
        translations = self.translations.facts() if self.translations else NOTHING
        vectors = self.vectors.facts() if self.vectors else None
        states = [found["status"] for found in (translations, vectors) if found and found is not NOTHING]
        status = next((state for state in states if state != "ok"), "ok")
        body = {**translations, "status": status, "translation": translations["status"], "vectors": vectors}
        return (200 if status == "ok" else 503), body


def create_app(endpoint: Endpoint) -> FastAPI:
    """Makes the application. Its caller starts and stops the batchers' threads."""
    telemetry = endpoint.metrics.telemetry
    app = FastAPI(
        title="Dragoman",
        version=version(),
        docs_url=None,
        redoc_url=None,
        telemetry=telemetry.make_fastapi_options(),  # type: ignore[arg-type]  # a dictionary of its keys
    )
    app.add_middleware(BodyLimit, limit=endpoint.limits.body, patience=endpoint.receive_timeout)
    app.add_middleware(AccessLog, lines=endpoint.access_log)
    app.add_middleware(Refusals, count=endpoint.metrics.refuse)

    @app.exception_handler(HTTPException)
    async def refuse(_request: Request, problem: HTTPException) -> Response:
        return refusal(problem.status_code, problem.detail, problem.headers)

    translation_request = TranslationRequest.within(endpoint.limits)

    @app.post(
        "/translate",
        summary="Translate a text, or a list of texts",
        responses=openapi.answers(openapi.TRANSLATION, origin=True),
        openapi_extra=openapi.in_body(translation_request),
    )
    async def translate(request: Request) -> Response:
        values = await parameters(request)
        check_key(values, endpoint.keys)
        answer, served = await endpoint.translate(validate(translation_request, values))
        return as_json(answer, headers=served.origin.headers())

    @app.post(
        "/detect",
        summary="The language that texts are assumed to be in",
        responses=openapi.answers(openapi.array_of(openapi.DETECTED), origin=True),
        openapi_extra=openapi.in_body(DetectionRequest),
    )
    async def detect(request: Request) -> Response:
        values = await parameters(request)
        check_key(values, endpoint.keys)
        validate(DetectionRequest, values)
        served = endpoint.queue().model()
        return as_json([{"confidence": 0.0, "language": standard_code(served.source)}], headers=served.origin.headers())

    @app.get("/languages", summary="The model's pair", responses=openapi.answers(openapi.LANGUAGES))
    async def languages() -> Response:
        served = endpoint.queue().model()
        source, target = map(standard_code, (served.source, served.target))
        pairs = {source: [target], target: []}
        return as_json(
            [{"code": code, "name": language_name(code), "targets": targets} for code, targets in pairs.items()]
        )

    @app.get("/frontend/settings", summary="Limits and languages", responses=openapi.answers(openapi.SETTINGS))
    async def settings() -> Response:
        served = endpoint.queue().model()
        language = {
            side: {"code": code, "name": language_name(code)}
            for side, code in (("source", standard_code(served.source)), ("target", standard_code(served.target)))
        }
        return as_json(
            {
                "apiKeys": bool(endpoint.keys),
                "charLimit": endpoint.limits.characters,
                "filesTranslation": False,
                "frontendTimeout": 500,
                "keyRequired": bool(endpoint.keys),
                "language": language,
                "suggestions": False,
                "supportedFilesFormat": [],
            }
        )

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

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(telemetry.text(), headers={"Content-Type": FORMAT})

    @app.get("/spec", include_in_schema=False)
    async def spec() -> Response:
        return as_json(app.openapi())

    add_vector_routes(app, endpoint.vectors, endpoint.limits, endpoint.keys)
    add_documentation(app)
    return app


def _rebuild_text(
    pieces: Sequence[Piece], translations: Sequence[Translation], alternatives: int
) -> tuple[str, list[str]]:
    """Returns a text's translation and its alternatives, from those of its pieces.

    The k-th alternative joins the k-th best of every sentence, or its last one.
    """
    best = join(pieces, [translation.text for translation in translations])
    others: list[str] = []
    for rank in range(1, alternatives + 1):
        chosen = [one.nbest[min(rank, len(one.nbest) - 1)].text if one.nbest else one.text for one in translations]
        other = join(pieces, chosen)
        if other != best and other not in others:
            others.append(other)
    return best, others
