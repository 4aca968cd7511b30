"""A child process that reads, prepares and writes documents, of a pool: `python -m` this module.

In the middle of its work it asks the server, which has the models and the keys:

    {"characters": N, "sample": TEXT}    -> {"models": [...], "longest": N, "terms": {...}}    once the key has paid
    {"model": N, "lines": [...], ...}    -> {"translations": [...]}, or the model's stand-ins without lines
    {"losses": {...}}                    -> {}
"""

import base64
import dataclasses
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dragoman.model.alignment.attention_map import AttentionMap
from dragoman.model.inference.losses import KINDS
from dragoman.model.inference.translator import Alternative, Translation
from dragoman.services.subprocesses.worker import Parent, serve
from dragoman.services.texts.documents.document import Document, DocumentError, Passage
from dragoman.services.texts.documents.kinds import read_document
from dragoman.services.texts.glossary import Glossary
from dragoman.services.texts.markup import check_markup
from dragoman.services.texts.prepare import spoken_text
from dragoman.services.texts.stand_ins import Pair, StandIns
from dragoman.services.texts.translating import Answer, Model, Task, run, translate

COMPUTING = 20.0  # CPU seconds to read or write a document, or to prepare a group of its passages
MEMORY = 1 << 30  # bytes
GROUP = 8000  # characters of the passages that are translated together, about
SAMPLE = 2000  # characters that tell a document's language


def answer(question: dict[str, Any], parent: Parent) -> dict[str, Any]:
    """Returns a document's content in another language, and the notes for its owner."""
    document = read_document(question["name"], base64.b64decode(question["content"]))
    return translate_document(document, question["most"], question["language"], parent)


def translate_document(document: Document, most: int, language: str, parent: Parent) -> dict[str, Any]:
    passages = document.passages
    characters = sum(len(passage.text) for passage in passages)
    if characters > most:
        raise DocumentError(f"the document exceeds {most} characters")
    for passage in passages:
        check_markup(*passage)
    route = parent.ask({"characters": characters, "sample": sample(passages)})
    models, glossary = (
        [Model(**facts) for facts in route["models"]],
        Glossary(route["terms"]) if route["terms"] else None,
    )
    texts: list[str] = []
    broken = 0
    losses = Counter(dict.fromkeys(KINDS, 0))
    for group in groups(passages):
        options = [dataclasses.replace(passage.options, glossary=glossary) for passage in group]
        task = Task([passage.text for passage in group], options, models, route["longest"])
        results = run(translate(task), lambda question: read_answer(parent.ask(question._asdict())))
        texts += [result.text for result in results]
        broken += sum(not result.report.get("complete", True) for result in results)
        for result in results:
            for each in result.losses:
                losses.update(each.counts())
    parent.ask({"losses": losses})
    lost = [f"passages that lost something, or stay as they were: {broken} of {len(texts)}"] if broken else []
    return {
        "content": base64.b64encode(document.write(texts, language)).decode(),
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


def plain_answer(answer: Answer) -> dict[str, Any]:
    """Returns what a model answers to a question, for JSON: translations without the tokens of their alternatives, or
    its stand-ins."""
    if isinstance(answer, StandIns):
        return vars(answer)
    return {
        "translations": [
            {
                **vars(translation),
                "nbest": [(each.text, each.score, each.log_probability) for each in translation.nbest],
                "attention": [attention.values() for attention in translation.attention],
            }
            for translation in answer
        ]
    }


def read_answer(values: Mapping[str, Any]) -> Answer:
    """Returns what `plain_answer` wrote."""
    if "translations" not in values:
        return StandIns(_pairs(values["names"]), _pairs(values["numbers"]))
    return [
        Translation(
            **{
                **translation,
                "nbest": [Alternative(*alternative) for alternative in translation["nbest"]],
                "attention": tuple(map(AttentionMap.of_values, translation["attention"])),
                "missing": tuple(translation["missing"]),
            }
        )
        for translation in values["translations"]
    ]


def _pairs(pairs: Iterable[tuple[str, Sequence[str]]]) -> tuple[Pair, ...]:
    return tuple((word, tuple(forms)) for word, forms in pairs)


if __name__ == "__main__":
    sys.exit(serve(answer, "reading it", COMPUTING, MEMORY, files=False))
