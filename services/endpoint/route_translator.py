"""Texts through the models of a route, for whatever asks: a request, or a document."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from starlette.exceptions import HTTPException

from dragoman.model.errors import UserError
from dragoman.model.inference.translator import Translation
from dragoman.services.endpoint.metrics import Metrics
from dragoman.services.endpoint.plain_sentences import answer_of, is_plain, is_sound
from dragoman.services.endpoint.translation import Answer
from dragoman.services.models.catalogue import Route
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.stand_ins import StandIns, stand_ins_of
from dragoman.services.texts.translating import HERE, Asking, Model, Question, Result, Task, cost, translate
from dragoman.services.texts.translating import Answer as ModelAnswer

Ask = Callable[[LoadedModel, list[str], int], Awaitable[list[Translation]]]  # lines, translations of each
logger = logging.getLogger(__name__)


class MarkupError(HTTPException):
    """A text is not in the format that its client says."""


@dataclass(frozen=True)
class RouteTranslator:
    """`ask` gives lines to a model; `longest`: characters of a sentence before it is cut further."""

    ask: Ask
    metrics: Metrics
    longest: int

    async def translate(
        self, route: Route, texts: Sequence[str], options: TextOptions, aligned: bool = False, alternatives: int = 0
    ) -> list[Answer]:
        """Returns the answers to texts of one language; over a language in the middle, one model after the other.

        Raises HTTPException: 400 no alignment can be given, MarkupError wrong markup, 500 a line cannot be translated;
        and as `ask`.
        """
        if aligned and route.via:
            raise HTTPException(400, f"alignment is not supported over a language in the middle ({route.via})")
        first: Sequence[Translation] = ()
        single = not aligned and not alternatives and len(route.models) == 1
        if single and all(is_plain(text, options, self.longest) for text in texts):
            first = check_translations(await self.ask(route.models[0], list(texts), 1))
            if all(map(is_sound, first)):
                return [answer_of(*pair, route) for pair in zip(texts, first, strict=True)]
        most = min(alternatives, route.models[-1].most_alternatives)
        task = Task(texts, [options] * len(texts), models_of(route), self.longest, aligned, most, first)
        try:
            results = await self._translate(route, task)
        except UserError as problem:
            raise MarkupError(400, f"Invalid request: {problem}") from None
        for result in results:
            self.metrics.lose(result.losses)
        return [_answer_of(result, route) for result in results]

    async def _translate(self, route: Route, task: Task) -> list[Result]:
        """Returns what a task's texts become; on another thread if preparing them takes long."""
        is_short = cost(task.texts, task.options[0]) <= HERE
        work, answer = translate(task), None
        while True:
            step = _step(work, answer) if is_short else await asyncio.to_thread(_step, work, answer)
            if not isinstance(step, Question):
                return step
            answer = await self.answer(route, step, task.aligned)

    async def answer(self, route: Route, question: Question, needed: bool = False) -> ModelAnswer:
        """Returns a model's translations of lines, with attention if they are `aligned`; or its stand-ins.

        Raises HTTPException: 400, the model has no attention and it is `needed`; 500, a line cannot be translated; and
        as `ask`.
        """
        served = route.models[question.model]
        if not question.lines:
            stand_ins: StandIns = await asyncio.to_thread(stand_ins_of, served)
            return stand_ins
        model = await self._aligning(served, needed) if question.aligned else served
        return check_translations(await self.ask(model, [*question.lines], question.nbest))

    async def _aligning(self, served: LoadedModel, needed: bool) -> LoadedModel:
        """Returns the model with attention, loaded on another thread; the model itself if it has none and none is
        `needed`.

        Raises HTTPException: 400, the model has no attention.
        """
        try:
            return await asyncio.to_thread(lambda: served.aligning)
        except UserError as problem:
            if needed:
                raise HTTPException(400, f"alignment is not supported: {problem}") from None
            return served


def _step(work: Asking[list[Result]], answer: ModelAnswer | None) -> Question | list[Result]:
    """Returns the next question of the work, or its results."""
    try:
        return next(work) if answer is None else work.send(answer)
    except StopIteration as end:
        results: list[Result] = end.value
        return results


def check_translations(translations: list[Translation]) -> list[Translation]:
    """Returns the translations. Raises HTTPException: 500, a line could not be translated."""
    for translation in translations:
        if translation.error:
            logger.error("a line could not be translated: %s", translation.error)
            raise HTTPException(500, f"Cannot translate text: {translation.error}")
    return translations


def models_of(route: Route) -> list[Model]:
    """Returns what texts are prepared for."""
    return [Model(model.source, model.target) for model in route.models]


def _answer_of(result: Result, route: Route) -> Answer:
    return Answer(
        text=result.text,
        source=route.source,
        confidence=0.0,
        alternatives=result.others,
        losses=reduce(merge_losses, [losses.record() for losses in result.losses]),
        alignment=result.maps,
        report=result.report,
        via=route.via,
    )


def merge_losses(losses: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Returns two records as one: numbers are added, lists are joined."""
    merged = dict(losses)
    for name, value in more.items():
        merged[name] = merged[name] + value if name in merged else value
    return merged
