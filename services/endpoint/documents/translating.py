"""A document's way through models that another process has: `Ask` asks that process in the middle of the work."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dragoman.model.alignment.attention_map import AttentionMap
from dragoman.model.inference.losses import Losses
from dragoman.model.inference.translator import Alternative, Translation
from dragoman.services.texts.documents.document import Document, Passage
from dragoman.services.texts.glossary import Glossary
from dragoman.services.texts.known import Known, Match
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.prepare import Rebuilt, pending, prepare, spoken_text
from dragoman.services.texts.report import merge_reports, terms_of
from dragoman.services.texts.stand_ins import Pair, StandIns

Ask = Callable[[dict[str, Any]], dict[str, Any]]
GROUP = 8000  # characters of the passages that are translated together, about
SAMPLE = 2000  # characters that tell a document's language


@dataclass
class Model:
    """A model of the other process."""

    ask: Ask
    number: int
    source: str
    target: str
    marks_capitals: bool

    @cached_property
    def stand_ins(self) -> StandIns:
        found = self.ask({"stand_ins": self.number})
        return StandIns(_pairs(found["names"]), _pairs(found["numbers"]))

    def translate(self, texts: Sequence[str], options: Sequence[TextOptions], longest: int) -> Iterator[Rebuilt]:
        """Yields the texts as this model translates them, asked again where it lost what must not change."""
        prepared = [
            prepare(text, one, self.source, longest, self.target, self.marks_capitals)
            for text, one in zip(texts, options, strict=True)
        ]
        losses = Losses()
        while not all(text.finished for text in prepared):
            if any(text.masked for text in prepared):
                for text in prepared:
                    text.stand_ins = self.stand_ins
            for asked in pending(prepared):
                question = {"lines": asked.lines, "nbest": asked.nbest(1), "aligned": asked.aligned}
                found = self.ask({"model": self.number, **question})["translations"]
                asked.take([read_translation(values) for values in found])
        rebuilt = [text.rebuild() for text in prepared]
        for text in prepared:
            for line, translation in text.translations():
                losses.add(line, translation)
        lost = sum((one.lost for one in rebuilt), Counter[str]())
        self.ask({"losses": losses.counts(), "lost": lost})
        yield from rebuilt


@dataclass(frozen=True, eq=False)
class AskedKnown(Known):
    """Known translations that the other process has."""

    units: Mapping[str, Match] = field(default_factory=dict)
    ask: Ask = lambda _: {}

    def exact(self, text: str) -> Match | None:
        return self._match("exact", text)

    def similar(self, text: str) -> Match | None:
        return self._match("similar", text)

    def _match(self, how: str, text: str) -> Match | None:
        found = self.ask({how: text})["match"]
        return None if found is None else Match(*found)


def translate(document: Document, terms: Mapping[str, str] | None, language: str, ask: Ask) -> dict[str, Any]:
    """Returns a document's content in another language, and the notes for its owner."""
    passages = document.passages
    route = ask({"sample": sample(passages)})
    models = [Model(ask, number, **facts) for number, facts in enumerate(route["models"])]
    glossary = Glossary(terms) if terms else None
    known = AskedKnown(ask=ask) if route["known"] else None
    texts: list[str] = []
    broken = 0
    for group in groups(passages):
        options = [dataclasses.replace(passage.options, glossary=glossary, known=known) for passage in group]
        answers = [Rebuilt(passage.text, {}, Counter()) for passage in group]
        for model in models:
            before = answers
            answers = list(model.translate([one.text for one in before], options, route["longest"]))
            if model.number:
                answers = [
                    dataclasses.replace(two, report=merge_reports(one.report, two.report, two.text))
                    for one, two in zip(before, answers, strict=True)
                ]
            options = [  # a second model leaves the terms that the first one wrote
                dataclasses.replace(one, glossary=one.glossary and Glossary(terms_of([answer.report])))
                for one, answer in zip(options, answers, strict=True)
            ]
        texts += [answer.text for answer in answers]
        broken += sum(not answer.report.get("complete", True) for answer in answers)
        ask({"share": len(texts) / len(passages)})
    lost = [f"passages that lost something, or stay as they were: {broken} of {len(texts)}"] if broken else []
    return {
        "content": document.write(texts, language),
        "notes": [*document.notes, *lost],
        "characters": sum(map(len, texts)),
    }


def sample(passages: Iterable[Passage]) -> str:
    """Returns a document's beginning, by which its language is told."""
    text = ""
    for passage in passages:
        text += spoken_text(passage.text[:SAMPLE], passage.options) + "\n"
        if len(text) > SAMPLE:
            break
    return text


def groups(passages: Iterable[Passage]) -> Iterator[list[Passage]]:
    """Yields the passages in groups of about GROUP characters."""
    group: list[Passage] = []
    size = 0
    for passage in passages:
        if group and size + len(passage.text) > GROUP:
            yield group
            group, size = [], 0
        group.append(passage)
        size += len(passage.text)
    if group:
        yield group


def plain_values(translation: Translation) -> dict[str, Any]:
    """Returns a translation for JSON."""
    values = dataclasses.asdict(translation)
    for one in values["attention"]:
        one["weights"] = one["weights"].tolist()
    return values


def read_translation(values: dict[str, Any]) -> Translation:
    """Returns what `plain_values` made of a translation."""
    values["nbest"] = [Alternative(**{**one, "ids": tuple(one["ids"])}) for one in values["nbest"]]
    values["attention"] = tuple(
        AttentionMap(
            source_tokens=tuple(one["source_tokens"]),
            target_tokens=tuple(one["target_tokens"]),
            weights=np.array(one["weights"], np.float32),
            head=one["head"],
            reading=one["reading"],
            threshold=one["threshold"],
        )
        for one in values["attention"]
    )
    return Translation(**{**values, "missing": tuple(values["missing"])})


def _pairs(found: Iterable[tuple[str, Sequence[str]]]) -> tuple[Pair, ...]:
    return tuple((word, tuple(forms)) for word, forms in found)
