"""The endpoint's parts, and one question to its translation model, whatever the client's dialect."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from starlette.exceptions import HTTPException

from model.errors import UserError
from model.inference.losses import Losses
from model.inference.translator import Translation
from model.languages import nearest, standard_code
from services.endpoint.glossaries import Glossaries
from services.endpoint.inference_queue import InferenceQueue
from services.endpoint.metrics import Metrics
from services.endpoint.translation import Answer, Question
from services.endpoint.vector_routes import VectorsQueue
from services.models.loaded_encoder import LoadedEncoder
from services.models.loaded_model import LoadedModel
from services.settings import Limits
from services.texts.prepare import Prepared, pending, prepare
from services.texts.stand_ins import stand_ins_of

logger = logging.getLogger(__name__)

EncoderQueue: TypeAlias = InferenceQueue[LoadedEncoder, str, NDArray[np.float32]]

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
    origins: Sequence[str] = ("*",)  # web pages' addresses that may ask
    glossaries: Glossaries = field(default_factory=Glossaries)
    encoder: EncoderQueue | None = None

    def queue(self) -> InferenceQueue[LoadedModel, str, Translation]:
        """Returns the queue of translations.

        Raises:
            HTTPException: 404, no translation model is served.
        """
        if self.translations is None:
            raise HTTPException(404, NO_TRANSLATION)
        return self.translations

    def pairs(self) -> list[tuple[str, str]]:
        """Returns the pairs of languages that are translated, spelled as in BCP 47.

        Raises:
            HTTPException: 404, no translation model is served; 503, none is loaded.
        """
        served = self.queue().model()
        return [(standard_code(served.source), standard_code(served.target))]

    def model_names(self) -> dict[str, float]:
        """Returns the names of the translation models, with the time when each was loaded."""
        if self.translations is None:
            return {}
        origin = self.translations.model().origin
        return {origin.name: origin.loaded}

    async def translate(self, question: Question) -> tuple[list[Answer], LoadedModel]:
        """Returns one answer per text, and the model that gave them.

        Raises:
            HTTPException: a language that the model lacks, a full queue, or a timeout.
        """
        served = self.queue().model()
        if question.source is not None and not nearest(question.source, (served.source,)):
            raise HTTPException(400, f"{question.source} is not supported")
        if not nearest(question.target, (served.target,)):
            raise HTTPException(400, f"{question.target} is not supported")
        prepared = [
            prepare(text, question.options, served.source, self.longest, served.target) for text in question.texts
        ]
        most = min(question.alternatives, served.most_alternatives)
        await self._translate(prepared, served, question.aligned, most + 1)
        source = standard_code(question.source or served.source)  # assumed, not detected
        answers, losses = [], []
        for text in prepared:
            losses.append(Losses("sentence"))
            for line, translation in text.translations():
                losses[-1].add(line, translation)
            best = text.rebuild()
            others = dict.fromkeys(text.rebuild(rank=rank).text for rank in range(1, most + 1))
            others.pop(best.text, None)
            maps = (
                [one.record() for _, part in text.translations() for one in part.attention] if question.aligned else []
            )
            answers.append(Answer(best.text, source, 0.0, list(others), losses[-1].record(), maps, best.report))
        self.metrics.lose(losses)
        self.metrics.characters.labels("in").inc(sum(map(len, question.texts)))
        self.metrics.characters.labels("out").inc(sum(len(answer.text) for answer in answers))
        return answers, served

    async def _translate(self, texts: Sequence[Prepared], served: LoadedModel, aligned: bool, nbest: int) -> None:
        """Translates the texts' lines, again where the model lost what must not change."""
        lines = sum(len(one.lines) for one in texts)
        with self.metrics.telemetry.span("inference", lines=lines, model=served.origin.name):
            while not all(text.finished for text in texts):
                if any(text.masked for text in texts):
                    known = await asyncio.to_thread(stand_ins_of, served)
                    for text in texts:
                        text.stand_ins = known
                for asked in pending(texts):
                    model = await self._aligning(served, needed=aligned) if aligned or asked.aligned else served
                    translations = await self.queue().ask(model, asked.lines, nbest)
                    for translation in translations:
                        if translation.error:
                            logger.error("a line could not be translated: %s", translation.error)
                            raise HTTPException(500, f"Cannot translate text: {translation.error}")
                    asked.take(translations)

    async def _aligning(self, served: LoadedModel, needed: bool) -> LoadedModel:
        """Returns the model with attention; without, the model itself where attention is not `needed`."""
        try:
            return await self._load_aligning(served)
        except HTTPException:
            if needed:
                raise
            return served

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
        encoder = self.encoder.facts() if self.encoder else None
        states = [found["status"] for found in (translations, vectors, encoder) if found and found is not NOTHING]
        status = next((state for state in states if state != "ok"), "ok")
        others = {"vectors": vectors, "encoder": encoder}
        body = {**translations, "status": status, "translation": translations["status"], **others}
        return (200 if status == "ok" else 503), body
