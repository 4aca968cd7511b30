"""A process that reads and translates documents, of a pool: `python -m` this module."""

import base64
import sys
from typing import Any

from dragoman.services.endpoint.documents.reading import COMPUTING
from dragoman.services.endpoint.documents.translating import translate
from dragoman.services.subprocesses.worker import Parent, serve
from dragoman.services.texts.documents.kinds import read_document
from dragoman.services.texts.markup import check_markup

MEMORY = 1 << 30  # bytes


def answer(question: dict[str, Any], parent: Parent) -> dict[str, Any]:
    """Returns `{"count": characters}`, or a translated document. Raises DocumentError."""
    document = read_document(question["name"], base64.b64decode(question["content"]))
    if question["do"] == "translate":
        found = translate(document, question["terms"], question["language"], parent.ask)
        return {"translate": {**found, "content": base64.b64encode(found["content"]).decode()}}
    characters = sum(len(passage.text) for passage in document.passages)
    if characters <= question["most"]:
        for passage in document.passages:
            check_markup(*passage)
    return {"count": characters}


if __name__ == "__main__":
    sys.exit(serve(answer, "reading it", MEMORY, COMPUTING, files=False))
