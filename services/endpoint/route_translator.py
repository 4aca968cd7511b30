"""Texts through the models of a route, for whatever asks: a request, or a document."""

import asyncio
import dataclasses
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException

from dragoman.model.errors import UserError
from dragoman.model.inference.losses import Losses
from dragoman.model.inference.translator import Translation
from dragoman.services.endpoint.long_texts import aside
from dragoman.services.endpoint.metrics import Metrics
from dragoman.services.endpoint.next_words import PIECES, check_sentence, differing
from dragoman.services.endpoint.plain_sentences import answer_of, is_plain, is_sound
from dragoman.services.endpoint.translation import Answer
from dragoman.services.models.catalogue import Catalogue, Route
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.texts.glossary import Glossary
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.prepare import Prepared, pending, prepare
from dragoman.services.texts.report import merge_reports, terms_of
from dragoman.services.texts.stand_ins import stand_ins_of

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

    async def translate(
        self,
        route: Route,
        texts: Sequence[str],
        options: Sequence[TextOptions],
        aligned: bool = False,
        alternatives: int = 0,
        prefix: str | None = None,
    ) -> list[Answer]:
        """Returns the answers to texts of one language; over a language in the middle, one model after the other.

        With `prefix`, the translation of the only text begins with it, and alternatives differ in the next word.

        Raises:
            HTTPException: 400 no alignment can be given or the text cannot have a prefix, MarkupError wrong markup, 500
                a line cannot be translated; and as `ask`.
        """
        if aligned and route.via:
            raise HTTPException(400, f"alignment is not supported over a language in the middle ({route.via})")
        first: Sequence[Translation] = ()
        single = not aligned and not alternatives and prefix is None and len(route.models) == 1
        if single and all(is_plain(*pair, self.longest) for pair in zip(texts, options, strict=True)):
            first = await self._ask_plainly(route.models[0], texts)
            if all(map(is_sound, first)):
                return [answer_of(*pair, route) for pair in zip(texts, first, strict=True)]
        answers: list[Answer] = []
        for model in route.models:
            before, most = answers, alternatives if model is route.models[-1] else 0
            given = [one.text for one in before] or texts
            if before:
                options = [_without_terms(one, answer) for one, answer in zip(options, before, strict=True)]
            if prefix is not None and model is route.models[-1]:
                answers = [await self._continue(model, given[0], options[0], most, prefix)]
            else:
                answers = await self._ask_model(model, given, options, aligned, most, first)
            for place, (middle, answer) in enumerate(zip(before, answers, strict=False)):
                report = merge_reports(middle.report, answer.report, answer.text)
                losses = merge_losses(middle.losses, answer.losses)
                answers[place] = dataclasses.replace(answer, losses=losses, report=report)
        return [dataclasses.replace(answer, via=route.via, origin=route.origin) for answer in answers]

    async def _ask_plainly(self, served: LoadedModel, texts: Sequence[str]) -> list[Translation]:
        """Returns the translations of texts of one line each."""
        with self.metrics.telemetry.span("inference", lines=len(texts), model=served.origin.name):
            translations = await self.ask(served, list(texts), 1)
        return check_translations(translations)

    async def _continue(self, served: LoadedModel, text: str, options: TextOptions, most: int, prefix: str) -> Answer:
        """Returns the answer that begins with `prefix`, with at most `most` alternatives."""
        prepared = prepare(text, options, served.source, self.longest, served.target)
        check_sentence(prepared)
        try:
            continuing = served.continuing(prefix)
        except UserError as problem:
            raise HTTPException(400, f"Invalid request: prefix: {problem}") from None
        count = PIECES * (most + 1)
        prepared.take(check_translations(await self.ask(continuing, prepared.lines, count)))
        answer, losses, lost = _rebuild(prepared, served, False, count - 1)
        self.metrics.lose([losses], [lost])
        best, *others = differing([answer.text, *answer.alternatives], prefix)
        return dataclasses.replace(answer, text=best, alternatives=others[:most])

    async def _ask_model(
        self,
        served: LoadedModel,
        texts: Sequence[str],
        options: Sequence[TextOptions],
        aligned: bool,
        most: int,
        first: Sequence[Translation] = (),
    ) -> list[Answer]:
        """Returns one model's answers, with at most `most` alternatives; `first`: what it has said to plain texts."""
        try:
            prepared = await aside(
                texts,
                lambda: [
                    prepare(text, one, served.source, self.longest, served.target, served.marks_capitals)
                    for text, one in zip(texts, options, strict=True)
                ],
            )
        except UserError as problem:
            raise MarkupError(400, f"Invalid request: {problem}") from None
        for text, translation in zip(prepared, first, strict=False):
            text.take([translation])
        most = min(most, served.most_alternatives)
        await self._translate(prepared, texts, served, aligned, most + 1)
        found = await aside(texts, lambda: [_rebuild(text, served, aligned, most) for text in prepared])
        self.metrics.lose((losses for _, losses, _ in found), (lost for _, _, lost in found))
        return [answer for answer, _, _ in found]

    async def _translate(
        self, texts: Sequence[Prepared], given: Sequence[str], served: LoadedModel, aligned: bool, nbest: int
    ) -> None:
        """Translates the lines of texts, which were `given` so, again where the model lost what must not change."""
        lines = sum(text.sentences for text in texts)
        with self.metrics.telemetry.span("inference", lines=lines, model=served.origin.name):
            while not all(text.finished for text in texts):
                if any(text.masked for text in texts):
                    known = await asyncio.to_thread(stand_ins_of, served)
                    for text in texts:
                        text.stand_ins = known
                for asked in await aside(given, lambda: pending(texts)):
                    question = asked.lines, asked.nbest(nbest), aligned or asked.aligned
                    translations = await self.ask_model(served, *question, needed=aligned)
                    await aside(given, partial(asked.take, translations))

    async def ask_model(
        self, served: LoadedModel, lines: list[str], nbest: int, aligned: bool, needed: bool = False
    ) -> list[Translation]:
        """Returns a model's translations of lines, with attention if it has any and `aligned`.

        Raises:
            HTTPException: 400, the model has no attention and it is `needed`; 500, a line cannot be translated; and as
                `ask`.
        """
        model = await self._aligning(served, needed) if aligned else served
        return check_translations(await self.ask(model, lines, nbest))

    async def _aligning(self, served: LoadedModel, needed: bool) -> LoadedModel:
        """Returns the model with attention, loaded on another thread; the model itself if it has none and none is
        `needed`.

        Raises:
            HTTPException: 400, the model has no attention.
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
    """Returns the translations.

    Raises:
        HTTPException: 500, a line could not be translated.
    """
    for translation in translations:
        if translation.error:
            logger.error("a line could not be translated: %s", translation.error)
            raise HTTPException(500, f"Cannot translate text: {translation.error}")
    return translations


def _rebuild(text: Prepared, served: LoadedModel, aligned: bool, most: int) -> tuple[Answer, Losses, Counter[str]]:
    """Returns the answer that a translated text gives, with at most `most` alternatives, and what sentences and text
    have lost."""
    losses = Losses("sentence")
    for line, translation in text.translations():
        losses.add(line, translation)
    best = text.rebuild()
    others = dict.fromkeys(text.rebuild(rank=rank).text for rank in range(1, most + 1))
    others.pop(best.text, None)
    maps = text.attention() if aligned else []
    return Answer(best.text, served.source, 0.0, list(others), losses.record(), maps, best.report), losses, best.lost


def _without_terms(options: TextOptions, answer: Answer) -> TextOptions:
    """Returns the options of a second model, which has to leave the terms that the first one wrote."""
    return dataclasses.replace(options, glossary=options.glossary and Glossary(terms_of([answer.report])))


def merge_losses(losses: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Returns two records as one: numbers are added, lists are joined."""
    merged = dict(losses)
    for name, value in more.items():
        merged[name] = merged[name] + value if name in merged else value
    return merged
