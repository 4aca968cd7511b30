"""The endpoint's parts, and one question to its translation model, whatever the client's dialect."""

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from starlette.exceptions import HTTPException

from dragoman.model.errors import UserError
from dragoman.model.inference.translator import Translation
from dragoman.model.text.labelled_words import Words
from dragoman.services.endpoint.detection import Detector, Guess
from dragoman.services.endpoint.documents.reading import Reading
from dragoman.services.endpoint.glossaries import Glossaries
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.endpoint.keys import NOBODY, Key, Keys
from dragoman.services.endpoint.memory import Memory
from dragoman.services.endpoint.metrics import Metrics
from dragoman.services.endpoint.route_translator import RouteTranslator, merge_losses
from dragoman.services.endpoint.spoken import Spoken, languages_of
from dragoman.services.endpoint.translation import Answer, Question
from dragoman.services.models.catalogue import Catalogue, NotServedError, Route
from dragoman.services.models.loaded_encoder import LoadedEncoder
from dragoman.services.models.loaded_guesser import Ask, GuessedText, LoadedGuesser
from dragoman.services.models.loaded_labeller import Labelled, LoadedLabeller
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.models.loaded_vectors import LoadedVectors, Refused
from dragoman.services.models.questions import Question as VectorQuestion
from dragoman.services.settings import Limits, ServeConfig

EncoderQueue: TypeAlias = InferenceQueue[LoadedEncoder, str, NDArray[np.float32]]
GuessQueue: TypeAlias = InferenceQueue[LoadedGuesser, Ask, GuessedText | str]
LabelsQueue: TypeAlias = InferenceQueue[LoadedLabeller, Words, Labelled]
VectorsQueue: TypeAlias = InferenceQueue[LoadedVectors, VectorQuestion, dict[str, Any] | Refused]

NO_TRANSLATION = "This endpoint has no translation model; GET /status says which models answer"
NOTHING: dict[str, Any] = {
    "status": "off",
    "model": None,
    "reload_error": None,
    "queued": 0,
    "models": [],
}  # /status without one


@dataclass
class Endpoint:
    """The application's parts: the queue of translations, that of word vectors, or both, and the settings."""

    translations: InferenceQueue[LoadedModel, str, Translation] | None
    vectors: VectorsQueue | None = None
    limits: Limits = field(default_factory=Limits)
    keys: Keys = field(default_factory=Keys)  # none: no key is needed
    config: ServeConfig = field(default_factory=ServeConfig)
    metrics: Metrics = field(default_factory=Metrics)
    models: Catalogue | None = None  # of `translations`, always with them
    detector: Detector = field(default_factory=Detector)
    memory: Memory | None = None
    hook: bytes | None = None  # secret of MLflow's webhooks; None: they are not taken
    glossaries: Glossaries = field(default_factory=Glossaries)
    encoder: EncoderQueue | None = None
    guesser: GuessQueue | None = None
    labels: LabelsQueue | None = None
    reading: Reading = field(default_factory=Reading)  # processes for documents and for texts that take long

    def queue(self) -> InferenceQueue[LoadedModel, str, Translation]:
        """Returns the queue of translations. Raises HTTPException: 404, no translation model is served."""
        if self.translations is None:
            raise HTTPException(404, NO_TRANSLATION)
        return self.translations

    def queues(self) -> Mapping[str, InferenceQueue[Any, Any, Any] | None]:
        """Returns the queue of each kind of model."""
        return {
            "translation": self.translations,
            "vectors": self.vectors,
            "encoder": self.encoder,
            "guesser": self.guesser,
            "labels": self.labels,
        }

    def pairs(self) -> list[tuple[str, str]]:
        """Returns the pairs of languages that are translated, spelled as in BCP 47.

        Raises HTTPException: as `served`.
        """
        return [(source, target) for source, targets in self.served().view.targets.items() for target in targets]

    def languages(self) -> tuple[Sequence[str], Sequence[str]]:
        """Returns the languages that are translated from and into, each once. Raises as `served`."""
        return self.served().view.reached

    def model_names(self) -> dict[str, float]:
        """Returns the names of the translation models, with the time when each was loaded."""
        cards = [model.card for model in self.models.models] if self.models is not None else []
        return {card.origin.name: card.origin.loaded for card in cards if card is not None}

    def served(self) -> Catalogue:
        """Returns the served translation models, at least one of which was loaded.

        Raises HTTPException: 404 no translation model is served, 503 none is loaded yet or no request is answered.
        """
        queue = self.queue()
        assert self.models is not None, "set with the queue"
        queue.model()  # says why there is no answer
        return self.models

    async def translate(self, question: Question) -> tuple[list[Answer], Route]:
        """Returns one answer per text, and the models that gave them (none: every text was copied).

        Texts of several languages in one question go to the models of their languages. The question's key pays for the
        characters, unless there is no answer.

        Raises HTTPException: a language or a version that no model has, a full queue, or a timeout.
        """
        models = self.served()
        if not models.view.sources(question.target):
            raise HTTPException(400, f"{question.target} is not supported")
        key, characters = question.key, sum(map(len, question.texts))
        self.keys.charge(key, characters, (question.source or question.target, question.target))
        try:
            async with asyncio.timeout(self.queue().timeout):
                answers, route = await self._answer(question, models)
        except TimeoutError:
            self.keys.give_back(key, characters)
            raise self.queue().no_answer() from None
        except BaseException:
            self.keys.give_back(key, characters)
            raise
        self.metrics.characters["in"] += characters
        self.metrics.characters["out"] += sum([len(answer.text) for answer in answers])
        return answers, route

    async def _answer(self, question: Question, models: Catalogue) -> tuple[list[Answer], Route]:
        spoken = await languages_of(question, models, self.detector, self.config.check_language, self.reading)
        owner = question.key.name
        if self.memory is not None and self.memory.due:
            await asyncio.to_thread(self.memory.look)
        answers: list[Answer | None] = [
            _copy(text, speech) if speech.copied else self._recall(text, speech, question, owner)
            for text, speech in zip(question.texts, spoken, strict=True)
        ]
        routes = []
        for language in dict.fromkeys(
            speech.language for speech, is_known in zip(spoken, answers, strict=True) if not is_known
        ):
            self.keys.allow(question.key, [language])
            places = [
                place for place, speech in enumerate(spoken) if speech.language == language and not answers[place]
            ]
            routes.append(await self.find(language, question.target, question.version))
            texts = [question.texts[place] for place in places]
            own = [spoken[place] for place in places]
            own_answers = await self._ask(routes[-1], texts, own, question)
            if self.memory is not None and self.memory.fuzzy is not None:
                pair = language, question.target
                own_answers = await asyncio.to_thread(add_similar, self.memory, texts, own_answers, *pair, owner)
            for place, answer in zip(places, own_answers, strict=True):
                answers[place] = answer
        return [answer for answer in answers if answer], routes[0] if routes else Route(())

    def _recall(self, text: str, spoken: Spoken, question: Question, owner: str) -> Answer | None:
        """Returns the known translation of a text; None if there is none, or the model itself is asked for."""
        if self.memory is None or question.aligned or question.prefix is not None:
            return None
        match = self.memory.exact(spoken.language, question.target, text, owner)
        if match is None:
            return None
        self.keys.allow(question.key, [spoken.language])
        return Answer(
            match.fitted(text), spoken.language, spoken.confidence, [], spoken.report(), memory=match.record()
        )

    async def find(self, source: str, target: str, version: str | None = None) -> Route:
        """Returns the models that translate from `source` into `target`; a model that must be loaded holds up no
        other request.

        Raises HTTPException: 400 no model has the languages or the version, 503 none is loaded or can be.
        """
        models = self.served()
        try:
            chosen = models.choose(source, target, version)
            if all(version.loaded for version in chosen):
                return Route(tuple(map(models.load, chosen)))
            return Route(await asyncio.to_thread(lambda: tuple(map(models.load, chosen))))
        except NotServedError as problem:
            raise HTTPException(400, str(problem)) from None
        except UserError as problem:
            raise HTTPException(503, str(problem), {"Retry-After": "5"}) from None

    async def detect(self, text: str, key: Key = NOBODY) -> list[Guess]:
        """Returns the languages that the text may be in, most probable first; without letters, the first served."""
        self.keys.charge(key, len(text))
        if not self.detector.loaded:
            await asyncio.to_thread(self.detector.load)
        offered = list(self.served().view.targets)
        return self.detector.rank(text, offered) or [Guess(offered[0], 0.0)]

    async def _ask(
        self, route: Route, texts: Sequence[str], spoken: Sequence[Spoken], question: Question
    ) -> list[Answer]:
        """Returns the answers to texts of one language."""
        ask = partial(self.queue().ask_in_time, key=question.key)
        translator = RouteTranslator(
            ask, self.metrics, self.config.longest, self.models, self.reading, question.key.client
        )
        answers = await translator.translate(
            route, texts, question.options, question.aligned, question.alternatives, question.prefix
        )
        return [_spoken(answer, speech) for answer, speech in zip(answers, spoken, strict=True)]

    def status(self) -> tuple[int, dict[str, Any]]:
        """Returns status code and body of /status: 200 only if every served model answers."""
        translations = self.translations.facts() if self.translations else NOTHING
        if self.models is not None:
            loading = translations["status"] == "ok" and bool(self.models.missing)
            served = [model.facts() for model in self.models.models]
            translations |= {"models": served} | ({"status": "loading"} if loading else {})
        others = {name: queue and queue.facts() for name, queue in self.queues().items() if name != "translation"}
        states = [found["status"] for found in (translations, *others.values()) if found and found is not NOTHING]
        status = next((state for state in states if state != "ok"), "ok")
        body = {**translations, "status": status, "translation": translations["status"], **others}
        return (200 if status == "ok" else 503), body


def add_similar(
    memory: Memory, texts: Sequence[str], answers: Sequence[Answer], source: str, target: str, owner: str
) -> list[Answer]:
    """Returns the answers with the known translations of similar texts."""
    matches = [memory.similar(source, target, text, owner) for text in texts]
    return [
        answer if match is None else dataclasses.replace(answer, memory=match.record())
        for answer, match in zip(answers, matches, strict=True)
    ]


def _copy(text: str, spoken: Spoken) -> Answer:
    return Answer(text, spoken.language, spoken.confidence, [], spoken.report())


def _spoken(answer: Answer, spoken: Spoken) -> Answer:
    """Returns the answer with the language of its text, and what there is to say about it."""
    if spoken.found is None and (spoken.language, spoken.confidence) == (answer.source, answer.confidence):
        return answer
    losses = merge_losses(answer.losses, spoken.report())
    return dataclasses.replace(answer, source=spoken.language, confidence=spoken.confidence, losses=losses)
