"""Texts through the models of a route, whoever asks those: a server's event loop, a child process, the command line.

work = translate(Task(texts, options, models, longest))
question = next(work)
while True:
    question = work.send(answer_of_models[question.model](question))  # StopIteration has the results
"""

import dataclasses
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import regex

from dragoman.model.errors import UserError
from dragoman.model.inference.losses import Losses
from dragoman.model.inference.translator import Translation
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.texts.glossary import Glossary
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.prepare import Prepared, pending, prepare
from dragoman.services.texts.report import merge_reports, terms_of
from dragoman.services.texts.stand_ins import StandIns, stand_ins_of

HERE = 2000  # cost of texts that are prepared in milliseconds: a server's event loop does it itself
SIGN = 20  # what a sign, a digit, a line feed or a term costs; a letter costs 1
_SIGN = regex.compile(r"[^\p{L}\p{M} ]")


class Question(NamedTuple):
    """A question to a model of the route: for the translations of lines; without any, for its stand-ins."""

    model: int
    lines: Sequence[str] = ()
    nbest: int = 1
    aligned: bool = False


Answer = list[Translation] | StandIns
Done = TypeVar("Done")
Asking = Generator[Question, Answer, Done]


@dataclass
class Model:
    """The facts about a model that texts are prepared by."""

    source: str  # language
    target: str


@dataclass
class Result:
    """A translated text, and what its models have lost."""

    text: str
    report: dict[str, Any] = field(default_factory=dict)
    losses: list[Losses] = field(default_factory=list)  # one a model
    others: list[str] = field(default_factory=list)  # alternatives
    maps: list[dict[str, Any]] = field(default_factory=list)  # of attention


@dataclass(frozen=True)
class Task:
    """Texts of one language, over a language in the middle if there are several models."""

    texts: Sequence[str]
    options: Sequence[TextOptions]
    models: Sequence[Model]
    longest: int  # characters of a sentence before it is cut further
    aligned: bool = False  # with attention
    most: int = 0  # alternatives
    first: Sequence[Translation] = ()  # what the first model has said to texts of one line


def cost(texts: Sequence[str], options: TextOptions) -> int:
    """Returns about what it costs to prepare texts and to write their translations."""
    terms = len(options.glossary.terms) if options.glossary else 0
    return sum(map(len, texts)) + SIGN * (terms + sum(len(_SIGN.findall(text)) for text in texts))


def translate(task: Task) -> Asking[list[Result]]:
    """Yields what models are asked; each question is sent its answer. Returns the results.

    Raises UserError: markup that cannot be read, or that is refused.
    """
    texts, options = task.texts, task.options
    done: list[Result] = []
    for number, model in enumerate(task.models):
        prepared = [
            prepare(text, each, model.source, task.longest, model.target)
            for text, each in zip(texts, options, strict=True)
        ]
        for text, translation in zip(prepared, () if number else task.first, strict=False):
            text.take([translation])
        most = task.most if number == len(task.models) - 1 else 0
        yield from ask(prepared, number, most + 1, task.aligned)
        before: Sequence[Result | None] = done or [None] * len(texts)
        done = [rebuild(text, most, task.aligned, earlier) for text, earlier in zip(prepared, before, strict=True)]
        texts = [result.text for result in done]
        # a second model leaves the terms that the first one wrote
        options = [
            dataclasses.replace(each, glossary=each.glossary and Glossary(terms_of([result.report])))
            for each, result in zip(options, done, strict=True)
        ]
    return done


def ask(texts: Sequence[Prepared], model: int = 0, nbest: int = 1, aligned: bool = False) -> Asking[None]:
    """Yields what a model is asked for texts, again where it lost what must not change."""
    while not all(text.finished for text in texts):
        if any(text.masked for text in texts):
            stand_ins = yield Question(model)
            for text in texts:
                text.stand_ins = stand_ins  # type: ignore[assignment]  # the answer to a question without lines
        for question in pending(texts):
            answer = yield Question(model, question.lines, question.nbest(nbest), aligned or question.aligned)
            question.take(answer)  # type: ignore[arg-type]  # the answer to a question with lines


def run(work: Asking[Done], answer: Callable[[Question], Answer]) -> Done:
    """Returns what the work returns, whose questions are answered at once."""
    try:
        question = next(work)
        while True:
            question = work.send(answer(question))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def translate_all(texts: Sequence[Prepared], served: LoadedModel, nbest: int = 1) -> None:
    """Translates the texts' lines, again where the model lost what must not change."""

    def answer(question: Question) -> list[Translation] | StandIns:
        if not question.lines:
            return stand_ins_of(served)
        return (_aligning(served) if question.aligned else served).translate([*question.lines], question.nbest)

    run(ask(texts, nbest=nbest), answer)


def _aligning(served: LoadedModel) -> LoadedModel:
    try:
        return served.aligning
    except UserError:  # no attention: places are guessed
        return served


def rebuild(text: Prepared, most: int, aligned: bool = False, before: Result | None = None) -> Result:
    """Returns a translated text with at most `most` alternatives; `before`: the same as the model before wrote it."""
    losses = Losses("sentence")
    for line, translation in text.translations():
        losses.add(line, translation)
    best = text.rebuild()
    others = dict.fromkeys(text.rebuild(rank=rank).text for rank in range(1, most + 1))
    others.pop(best.text, None)
    maps = text.attention() if aligned else []
    if before is None:
        return Result(best.text, best.report, [losses], list(others), maps)
    report = merge_reports(before.report, best.report, best.text)
    return Result(best.text, report, [*before.losses, losses], list(others), maps)
