"""The translation endpoint: LibreTranslate's HTTP interface over one model and the micro-batcher.

    POST /translate   GET /languages   POST /detect   GET /frontend/settings   GET /health

`Endpoint` holds what answers; `create_app` makes the FastAPI application of it. An answer's headers name the model
version, the run and the manifest of the shards that it was trained on.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from model.translator import Translation
from services.ask import Ask, Limits, check_key, parameters, read_ask
from services.batcher import Batcher, EngineStoppedError, QueueFullError
from services.body_limit import BodyLimit
from services.languages import language_name
from services.sentences import Piece, join, split
from services.served import Served
from services.version import version

logger = logging.getLogger(__name__)

LOADING = "No model is loaded yet: try again later"
QUESTION = {  # the body of /translate for the interface's own documentation page
    "type": "object",
    "required": ["q", "source", "target"],
    "properties": {
        "q": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "source": {"type": "string", "example": "en", "description": "a language code, or auto"},
        "target": {"type": "string", "example": "de"},
        "format": {"type": "string", "enum": ["text"]},
        "alternatives": {"type": "integer", "minimum": 0},
        "api_key": {"type": "string"},
    },
}


@dataclass
class Endpoint:
    """What the application needs. `model` gives the model that answers now, `trouble` why a newer one does not."""

    model: Callable[[], Served | None]
    batcher: Batcher[Served, Translation]
    trouble: Callable[[], str | None] = lambda: None
    limits: Limits = field(default_factory=Limits)
    keys: Sequence[str] = ()  # API keys; none: everybody may ask
    timeout: float = 30.0  # seconds that a request may wait for its answer
    longest: int = 400  # characters of a sentence before it is cut further

    def served(self) -> Served:
        """The model that answers now.

        Raises:
            HTTPException: 503, none is loaded or the translation thread has ended.
        """
        served = self.model()
        if served is None:
            raise HTTPException(503, LOADING, {"Retry-After": "5"})
        if not self.batcher.alive:
            raise HTTPException(503, "The translation thread has ended: the server must be started again")
        return served

    async def translate(self, ask: Ask) -> tuple[dict[str, Any], Served]:
        """LibreTranslate's answer, and the model that gave it.

        Raises:
            HTTPException: a language that the model has not got, the queue is full, or the time is over.
        """
        served = self.served()
        if ask.source not in ("auto", served.source):
            raise HTTPException(400, f"{ask.source} is not supported")
        if ask.target != served.target:
            raise HTTPException(400, f"{ask.target} is not supported")
        alternatives = min(ask.alternatives, served.most_alternatives)
        pieces = [split(text, self.longest) for text in ask.texts]
        lines = [piece.text for text in pieces for piece in text if piece.text]
        found = iter(await self._queue(served, lines, alternatives + 1))
        answers = [_rebuilt(text, found, alternatives) for text in pieces]

        answer: dict[str, Any] = {"translatedText": [best for best, _ in answers] if ask.batch else answers[0][0]}
        if ask.source == "auto":
            language = {"confidence": 0.0, "language": served.source}  # assumed, not detected
            answer["detectedLanguage"] = [language] * len(answers) if ask.batch else language
        if ask.alternatives:
            answer["alternatives"] = [others for _, others in answers] if ask.batch else answers[0][1]
        return answer, served

    async def _queue(self, served: Served, lines: list[str], nbest: int) -> list[Translation]:
        if len(lines) > self.batcher.capacity:  # it could never be taken
            raise HTTPException(
                400, f"Invalid request: {len(lines)} sentences exceed the limit ({self.batcher.capacity})"
            )
        try:
            future = asyncio.wrap_future(self.batcher.submit(served, lines, nbest))
            translations = await asyncio.wait_for(future, self.timeout)
        except QueueFullError as problem:
            raise HTTPException(429, f"Slowdown: {problem}", {"Retry-After": str(problem.retry_after)}) from None
        except EngineStoppedError as problem:
            raise HTTPException(503, f"Cannot translate text: {problem}") from None
        except TimeoutError:
            raise HTTPException(
                503, f"Cannot translate text: no answer in {self.timeout:g} s", {"Retry-After": "5"}
            ) from None
        for translation in translations:
            if translation.error:
                logger.error("a line could not be translated: %s", translation.error)
                raise HTTPException(500, f"Cannot translate text: {translation.error}")
        return translations

    def health(self) -> tuple[int, dict[str, Any]]:
        """Status code and body of /health: 200 only while translations are answered."""
        served = self.model()
        status = "loading" if served is None else "ok" if self.batcher.alive else "stopped"
        facts = (
            None
            if served is None
            else {
                "name": served.name,
                "version": served.version,
                "run_id": served.run_id,
                "manifest_hash": served.manifest_hash,
                "source": served.source,
                "target": served.target,
                "loaded": served.loaded,
            }
        )
        body = {"status": status, "model": facts, "reload_error": self.trouble(), "queued": self.batcher.queued}
        return (200 if status == "ok" else 503), body


def create_app(endpoint: Endpoint) -> FastAPI:
    """The application. It starts and stops nothing: the batcher's thread is its caller's."""
    app = FastAPI(title="Dragoman", version=version())
    app.add_middleware(BodyLimit, limit=endpoint.limits.body)

    @app.exception_handler(HTTPException)
    async def refused(_request: Request, problem: HTTPException) -> Response:
        return _json({"error": problem.detail}, problem.status_code, problem.headers)

    @app.exception_handler(Exception)
    async def failed(_request: Request, _problem: Exception) -> Response:
        return _json({"error": "Cannot translate text: internal error"}, 500)  # the server logs the trace

    @app.post("/translate", openapi_extra={"requestBody": {"content": {"application/json": {"schema": QUESTION}}}})
    async def translate(request: Request) -> Response:
        values = await parameters(request)
        check_key(values, endpoint.keys)
        answer, served = await endpoint.translate(read_ask(values, endpoint.limits))
        return _json(answer, headers=served.headers())

    @app.post("/detect")
    async def detect(request: Request) -> Response:
        values = await parameters(request)
        check_key(values, endpoint.keys)
        if not values.get("q"):
            raise HTTPException(400, "Invalid request: missing q parameter")
        served = endpoint.served()
        return _json([{"confidence": 0.0, "language": served.source}], headers=served.headers())

    @app.get("/languages")
    async def languages() -> Response:
        served = endpoint.served()
        pairs = {served.source: [served.target], served.target: []}
        return _json(
            [{"code": code, "name": language_name(code), "targets": targets} for code, targets in pairs.items()]
        )

    @app.get("/frontend/settings")
    async def settings() -> Response:
        served = endpoint.served()
        language = {
            side: {"code": code, "name": language_name(code)}
            for side, code in (("source", served.source), ("target", served.target))
        }
        return _json(
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

    @app.get("/health")
    async def health() -> Response:
        code, body = endpoint.health()
        return _json({**body, "dragoman": app.version}, code)

    return app


def _rebuilt(pieces: Sequence[Piece], found: Any, alternatives: int) -> tuple[str, list[str]]:
    """A text's translation and its alternatives from those of its pieces, which are taken from `found` in order.

    The k-th alternative is made of the k-th best of every sentence, or the last that a sentence has.
    """
    translations = [next(found) if piece.text else Translation("", 0.0) for piece in pieces]
    best = join(pieces, [translation.text for translation in translations])
    others: list[str] = []
    for rank in range(1, alternatives + 1):
        chosen = [one.nbest[min(rank, len(one.nbest) - 1)].text if one.nbest else one.text for one in translations]
        other = join(pieces, chosen)
        if other != best and other not in others:
            others.append(other)
    return best, others


def _json(content: object, status: int = 200, headers: Any = None) -> Response:
    body = json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    return Response(body, status, headers, media_type="application/json")
