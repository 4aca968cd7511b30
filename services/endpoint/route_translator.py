"""Texts through the models of a route, for whatever asks: a request, or a document."""

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

from starlette.exceptions import HTTPException

from dragoman.model.errors import ServiceError, UserError
from dragoman.model.inference.translator import Translation
from dragoman.services.endpoint.documents.messages import plain_answer
from dragoman.services.endpoint.documents.reading import Reading
from dragoman.services.endpoint.metrics import Metrics
from dragoman.services.endpoint.next_words import PIECES, check_sentence, differing
from dragoman.services.endpoint.plain_sentences import answer_of, is_plain, is_sound
from dragoman.services.endpoint.translation import Answer
from dragoman.services.models.catalogue import Catalogue, Route
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.prepare import prepare
from dragoman.services.texts.stand_ins import StandIns, stand_ins_of
from dragoman.services.texts.translating import HERE, Model, Question, Result, Task, cost, rebuild, translate

Ask = Callable[[LoadedModel, list[str], int], Awaitable[list[Translation]]]  # lines, translations of each
logger = logging.getLogger(__name__)


class MarkupError(HTTPException):
    """A text is not in the format that its client says."""


@dataclass(frozen=True)
class RouteTranslator:
    """`ask` gives lines to a model; `longest`: characters of a sentence before it is cut further; `models`: what shares
    the memory with the network that shows attention.
    """

    ask: Ask
    metrics: Metrics
    longest: int
    models: Catalogue | None = None
    reading: Reading = field(default_factory=Reading)
    owner: str = ""  # whose turn it is at a process that prepares texts

    async def translate(
        self,
        route: Route,
        texts: Sequence[str],
        options: TextOptions,
        aligned: bool = False,
        alternatives: int = 0,
        prefix: str | None = None,
    ) -> list[Answer]:
        """Returns the answers to texts of one language; over a language in the middle, one model after the other.

        With `prefix`, the translation of the only text begins with it, and alternatives differ in the next word.

        Raises HTTPException: 400 no alignment can be given or the text cannot have a prefix, MarkupError wrong markup,
        500 a line cannot be translated; and as `ask`.
        """
        if aligned and route.via:
            raise HTTPException(400, f"alignment is not supported over a language in the middle ({route.via})")
        first: Sequence[Translation] = ()
        single = not aligned and not alternatives and prefix is None and len(route.models) == 1
        if single and all(is_plain(text, options, self.longest) for text in texts):
            first = await self._ask_plainly(route.models[0], texts)
            if all(map(is_sound, first)):
                return [answer_of(*pair, route) for pair in zip(texts, first, strict=True)]
        models = models_of(route) if prefix is None else models_of(route)[:-1]
        most = min(alternatives, route.models[-1].most_alternatives)
        task = Task(texts, [options] * len(texts), models, self.longest, aligned, most, first)
        try:
            results = await self._translate(route, task) if models else []
            if prefix is not None:
                before = results[0] if results else None
                results = [await self._continue(route.models[-1], texts[0], options, before, most, prefix)]
        except ServiceError as problem:
            raise HTTPException(503, f"Cannot translate text: {problem}", {"Retry-After": "5"}) from None
        except UserError as problem:
            raise MarkupError(400, f"Invalid request: {problem}") from None
        for answer_before in results:
            self.metrics.lose(answer_before.losses, [answer_before.lost])
        return [_answer_of(option, route) for option in results]

    async def _ask_plainly(self, served: LoadedModel, texts: Sequence[str]) -> list[Translation]:
        """Returns the translations of texts of one line each."""
        with self.metrics.telemetry.span("inference", texts=len(texts), model=served.origin.name):
            translations = await self.ask(served, list(texts), 1)
        return check_translations(translations)

    async def _continue(
        self, served: LoadedModel, text: str, options: TextOptions, before: Result | None, most: int, prefix: str
    ) -> Result:
        """Returns the translation that begins with `prefix`, with at most `most` alternatives; `before`: of the model
        before this one."""
        text = text if before is None else before.text
        prepared = prepare(text[: self.longest + 1], options, served.source, self.longest, served.target)
        check_sentence(prepared)
        try:
            continuing = served.continuing(prefix)
        except UserError as problem:
            raise HTTPException(400, f"Invalid request: prefix: {problem}") from None
        count = PIECES * (most + 1)
        prepared.take(check_translations(await self.ask(continuing, prepared.lines, count)))
        result = rebuild(prepared, count - 1, before=before)
        best, *others = differing([result.text, *result.others], prefix)
        return dataclasses.replace(result, text=best, others=others[:most])

    async def _translate(self, route: Route, task: Task) -> list[Result]:
        """Returns what a task's texts become, prepared in a process of their own if that takes long."""
        with self.metrics.telemetry.span("inference", texts=len(task.texts), model=route.origin.name):
            if cost(task.texts, task.options[0]) > HERE:
                return await self.reading.results(task, self.owner, partial(self.reply, route, needed=task.aligned))
            work = translate(task)
            try:
                question = next(work)
                while True:
                    question = work.send(await self._answer_question(route, question, task.aligned))
            except StopIteration as end:
                results: list[Result] = end.value
                return results

    async def reply(self, route: Route, question: dict[str, Any], needed: bool = False) -> dict[str, Any]:
        """Returns what another process gets for a question to a model of the route."""
        return plain_answer(await self._answer_question(route, Question(**question), needed))

    async def _answer_question(self, route: Route, question: Question, needed: bool) -> list[Translation] | StandIns:
        """Returns a model's translations of lines, with attention if they are `aligned`; or its stand-ins.

        Raises HTTPException: 400, the model has no attention and it is `needed`; 500, a line cannot be translated; and
        as `ask`.
        """
        served = route.models[question.model]
        if not question.lines:
            return await asyncio.to_thread(stand_ins_of, served)
        model = await self._aligning(served, needed) if question.aligned else served
        return check_translations(await self.ask(model, [*question.lines], question.nbest))

    async def _aligning(self, served: LoadedModel, needed: bool) -> LoadedModel:
        """Returns the model with attention, loaded on another thread; the model itself if it has none and none is
        `needed`.

        Raises HTTPException: 400, the model has no attention.
        """
        try:
            aligning = await asyncio.to_thread(lambda: served.aligning)
        except UserError as problem:
            if needed:
                raise HTTPException(400, f"alignment is not supported: {problem}") from None
            return served
        if self.models is not None:
            await asyncio.to_thread(self.models.fit)
        return aligning


def check_translations(translations: list[Translation]) -> list[Translation]:
    """Returns the translations. Raises HTTPException: 500, a line could not be translated."""
    for translation in translations:
        if translation.error:
            logger.error("a line could not be translated: %s", translation.error)
            raise HTTPException(500, f"Cannot translate text: {translation.error}")
    return translations


def models_of(route: Route) -> list[Model]:
    """Returns what texts are prepared for."""
    return [Model(model.source, model.target, model.marks_capitals) for model in route.models]


def _answer_of(result: Result, route: Route) -> Answer:
    losses = reduce(merge_losses, [losses_of_model.record() for losses_of_model in result.losses])
    return Answer(
        text=result.text,
        source=route.source,
        confidence=0.0,
        alternatives=result.others,
        losses=losses,
        alignment=result.maps,
        report=result.report,
        via=route.via,
        origin=route.origin,
    )


def merge_losses(losses: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Returns two records as one: numbers are added, lists are joined."""
    merged = dict(losses)
    for name, value in more.items():
        merged[name] = merged[name] + value if name in merged else value
    return merged
