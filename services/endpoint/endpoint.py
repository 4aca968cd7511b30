"""The endpoint's parts, and one question to its translation models, whatever the client's dialect."""

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException

from dragoman.model.errors import UserError
from dragoman.model.languages import nearest, standard_code
from dragoman.services.endpoint.detection import Detector, Guess
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.endpoint.keys import NOBODY, Key, Keys
from dragoman.services.endpoint.metrics import Metrics
from dragoman.services.endpoint.route_translator import RouteTranslator, merge_losses
from dragoman.services.endpoint.spoken import Spoken, languages_of
from dragoman.services.endpoint.translation import Answer, Question
from dragoman.services.models.catalogue import Catalogue, NotServedError, Route
from dragoman.services.settings import Limits, ServeConfig
from dragoman.services.texts.glossary import Glossary, read_glossary

KEY = "serve.glossary"


@dataclass
class TermsFile:
    """The terms of a file: lines of source, tab and target (.csv: with commas), or .tbx, which names the languages."""

    path: str
    _read: dict[tuple[str, str], Glossary | None] = field(default_factory=dict)

    def check(self, pairs: list[tuple[str, str]]) -> None:
        """Reads the file for the pairs that are served."""
        if len(pairs) > 1 and Path(self.path).suffix.lower() != ".tbx":
            names = ", ".join(f"{source}-{target}" for source, target in pairs)
            raise UserError(f"{KEY}={self.path} names no languages, and {names} are served; write it as .tbx")
        problems = [problem for pair in pairs if (problem := self._problem(*pair))]
        if pairs and len(problems) == len(pairs):
            raise problems[0]

    def joined(self, source: str, target: str, own: Glossary | None) -> Glossary | None:
        """Returns the file's terms for a pair with a request's `own`, which go before them."""
        if (source, target) not in self._read:
            self._problem(source, target)
        terms = self._read[source, target]
        return own if terms is None else terms if own is None else Glossary({**terms.terms, **own.terms})

    def _problem(self, source: str, target: str) -> UserError | None:
        """Reads the terms of a pair; returns why there are none."""
        try:
            self._read[source, target] = read_glossary(self.path, KEY, source, target)
        except UserError as problem:
            self._read[source, target] = None
            return problem
        return None


@dataclass
class Endpoint:
    """The application's parts: the models, the queue of lines to them, and the settings."""

    models: Catalogue
    queue: InferenceQueue
    limits: Limits = field(default_factory=Limits)
    keys: Keys = field(default_factory=Keys)  # none: no key is needed
    config: ServeConfig = field(default_factory=ServeConfig)
    metrics: Metrics = field(default_factory=Metrics)
    detector: Detector = field(default_factory=Detector)
    terms: TermsFile | None = None
    suggestions: Path | None = None

    def pairs(self) -> list[tuple[str, str]]:
        """Returns the pairs of languages that are translated, spelled as in BCP 47. Raises as `served`."""
        return [(source, target) for source, targets in self.served().view.targets.items() for target in targets]

    def languages(self) -> tuple[Sequence[str], Sequence[str]]:
        """Returns the languages that are translated from and into, each once. Raises as `served`."""
        return self.served().view.reached

    def served(self) -> Catalogue:
        """Returns the models, at least one of which is loaded.

        Raises HTTPException: 503, none is loaded yet or no request is answered.
        """
        self.queue.check()
        return self.models

    async def translate(self, question: Question) -> tuple[list[Answer], Route]:
        """Returns one answer per text, and the models that gave them (none: every text was copied).

        Texts of several languages in one question go to the models of their languages. The question's key pays for the
        characters, unless there is no answer.

        Raises HTTPException: a language that no model has, a full queue, or a timeout.
        """
        models = self.served()
        if not models.view.sources(question.target):
            raise HTTPException(400, f"{question.target} is not supported")
        key, characters = question.key, sum(map(len, question.texts))
        self.keys.charge(key, characters)
        try:
            async with asyncio.timeout(self.queue.timeout):
                answers, route = await self._answer(question, models)
        except TimeoutError:
            self.keys.give_back(key, characters)
            raise self.queue.no_answer() from None
        except BaseException:
            self.keys.give_back(key, characters)
            raise
        self.metrics.characters["in"] += characters
        self.metrics.characters["out"] += sum([len(answer.text) for answer in answers])
        return answers, route

    async def _answer(self, question: Question, models: Catalogue) -> tuple[list[Answer], Route]:
        spoken = await languages_of(question, models, self.detector, self.config.check_language)
        answers: list[Answer | None] = [
            _copy(text, speech) if speech.copied else None for text, speech in zip(question.texts, spoken, strict=True)
        ]
        routes = []
        for language in dict.fromkeys(speech.language for speech in spoken if not speech.copied):
            rows = [row for row, speech in enumerate(spoken) if speech.language == language and not answers[row]]
            routes.append(self.find(language, question.target))
            texts = [question.texts[row] for row in rows]
            for row, answer in zip(rows, await self._ask(routes[-1], texts, question), strict=True):
                answers[row] = _spoken(answer, spoken[row])
        return [answer for answer in answers if answer], routes[0] if routes else Route(())

    def check_pair(
        self,
        source: str | None,
        target: str,
        names: tuple[str, str] = ("source", "target"),
        message: str = "Invalid value for {name}: {code} is not supported",
    ) -> None:
        """Raises HTTPException, 400 with the `message`: no model is from `source` (None: any) or into `target`."""
        sources, targets = self.languages()
        for name, code, languages in ((names[1], target, targets), (names[0], source, sources)):
            if code is not None and not nearest(standard_code(code), tuple(languages)):
                raise HTTPException(400, message.format(name=name, code=code))

    def find(self, source: str, target: str) -> Route:
        """Returns the models that translate from `source` into `target`.

        Raises HTTPException: 400 no model has the languages, 503 none is loaded.
        """
        try:
            return self.served().find(source, target)
        except NotServedError as problem:
            raise HTTPException(400, str(problem)) from None

    async def detect(self, text: str, key: Key = NOBODY) -> list[Guess]:
        """Returns the languages that the text may be in, most probable first; without letters, the first served."""
        self.keys.charge(key, len(text))
        if not self.detector.loaded:
            await asyncio.to_thread(self.detector.load)
        offered = list(self.served().view.targets)
        return self.detector.rank(text, offered) or [Guess(offered[0], 0.0)]

    async def _ask(self, route: Route, texts: Sequence[str], question: Question) -> list[Answer]:
        """Returns the answers to texts of one language."""
        options = question.options
        if self.terms is not None:
            glossary = self.terms.joined(route.source, route.target, options.glossary)
            options = dataclasses.replace(options, glossary=glossary)
        ask = partial(self.queue.ask, client=question.key.client)
        translator = RouteTranslator(ask, self.metrics, self.config.longest)
        return await translator.translate(route, texts, options, question.aligned, question.alternatives)

    def status(self) -> tuple[int, dict[str, Any]]:
        """Returns status code and body of /status: 200 only if every served model answers."""
        body = self.queue.facts() | {"models": [model.facts() for model in self.models.models]}
        if body["status"] == "ok" and self.models.missing:
            body["status"] = "loading"
        return (200 if body["status"] == "ok" else 503), body


def _copy(text: str, spoken: Spoken) -> Answer:
    return Answer(text, spoken.language, spoken.confidence, [], spoken.report())


def _spoken(answer: Answer, spoken: Spoken) -> Answer:
    """Returns the answer with the language of its text, and what there is to say about it."""
    if spoken.found is None and (spoken.language, spoken.confidence) == (answer.source, answer.confidence):
        return answer
    losses = merge_losses(answer.losses, spoken.report())
    return dataclasses.replace(answer, source=spoken.language, confidence=spoken.confidence, losses=losses)
