"""A process that reads, prepares and writes texts and documents, of a pool: `python -m` this module.

In the middle of its work it asks the server, which has the models (`translate`) and the known translations.
"""

import base64
import dataclasses
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.model.inference.losses import KINDS
from dragoman.services.endpoint.documents.messages import plain_result, read_answer, read_options, read_translation
from dragoman.services.endpoint.documents.reading import COMPUTING
from dragoman.services.subprocesses.worker import Parent, serve
from dragoman.services.texts.documents.document import Document, Passage
from dragoman.services.texts.documents.kinds import read_document
from dragoman.services.texts.glossary import Glossary
from dragoman.services.texts.known import KnownTranslations, Match
from dragoman.services.texts.markup import check_markup
from dragoman.services.texts.prepare import spoken_text
from dragoman.services.texts.translating import Model, Result, Task, run, translate

MEMORY = 1 << 30  # bytes
GROUP = 8000  # characters of the passages that are translated together, about
SAMPLE = 2000  # characters that tell a document's language


@dataclass(frozen=True, eq=False)
class AskedKnown(KnownTranslations):
    """Known translations that the server has."""

    units: Mapping[str, Match] = field(default_factory=dict)
    parent: Parent | None = None

    def exact(self, text: str) -> Match | None:
        return self._match("exact", text)

    def similar(self, text: str) -> Match | None:
        return self._match("similar", text)

    def _match(self, how: str, text: str) -> Match | None:
        assert self.parent is not None
        match = self.parent.ask({how: text})["match"]
        return None if match is None else Match(*match)


def answer(question: dict[str, Any], parent: Parent) -> dict[str, Any]:
    """Returns what a question asks for, by its name. Raises UserError."""
    do = question.pop("do")
    if do == "spoken":
        options = read_options(question["options"])
        return {do: [spoken_text(text, options)[: question["most"]] for text in question["texts"]]}
    if do == "results":
        read = {
            "options": [read_options(question["options"])] * len(question["texts"]),
            "models": [Model(**model) for model in question["models"]],
            "first": list(map(read_translation, question["first"])),
        }
        return {do: list(map(plain_result, _translated(Task(**{**question, **read}), parent)))}
    document = read_document(question["name"], base64.b64decode(question["content"]))
    if do == "translate":
        return {"translate": translate_document(document, question["terms"], question["language"], parent)}
    characters = sum(len(passage.text) for passage in document.passages)
    if characters <= question["most"]:
        for passage in document.passages:
            check_markup(*passage)
    return {"count": characters}


def _translated(task: Task, parent: Parent) -> list[Result]:
    return run(translate(task), lambda question: read_answer(parent.ask(question._asdict())))


def translate_document(
    document: Document, terms: Mapping[str, str] | None, language: str, parent: Parent
) -> dict[str, Any]:
    """Returns a document's content in another language, and the notes for its owner."""
    passages = document.passages
    route = parent.ask({"sample": sample(passages)})
    models = [Model(**facts) for facts in route["models"]]
    glossary = Glossary(terms) if terms else None
    memory = AskedKnown(parent=parent) if route["known"] else None
    texts: list[str] = []
    broken = 0
    for group in groups(passages):
        options = [dataclasses.replace(passage.options, glossary=glossary, known=memory) for passage in group]
        results = _translated(Task([passage.text for passage in group], options, models, route["longest"]), parent)
        texts += [result.text for result in results]
        broken += sum(not result.report.get("complete", True) for result in results)
        parent.ask({"share": len(texts) / len(passages), **_losses(results)})
    lost = [f"passages that lost something, or stay as they were: {broken} of {len(texts)}"] if broken else []
    return {
        "content": base64.b64encode(document.write(texts, language)).decode(),
        "notes": [*document.notes, *lost],
        "characters": sum(map(len, texts)),
    }


def _losses(results: Iterable[Result]) -> dict[str, Any]:
    """Returns the numbers of what texts have lost, of sentences and of what must not change."""
    losses, lost = Counter(dict.fromkeys(KINDS, 0)), Counter[str]()
    for result in results:
        lost.update(result.lost)
        for each in result.losses:
            losses.update(each.counts())
    return {"losses": losses, "lost": lost}


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


if __name__ == "__main__":
    sys.exit(serve(answer, "reading it", MEMORY, COMPUTING, files=False))
