"""A process that reads documents, of a pool: `python -m dragoman.services.endpoint.documents.reading_worker`."""

import base64
import dataclasses
import sys
from typing import Any

from dragoman.services.endpoint.documents.reading import COMPUTING
from dragoman.services.subprocesses.worker import serve
from dragoman.services.texts.documents.kinds import read_document
from dragoman.services.texts.markup import check_markup
from dragoman.services.texts.options import TextOptions

MEMORY = 1 << 30  # bytes
DEFAULTS = TextOptions()


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Returns `{"count": characters}`, `{"read": passages}` or `{"write": content}`. Raises DocumentError."""
    document = read_document(question["name"], base64.b64decode(question["content"]))
    if question["do"] == "write":
        content = document.write(question["texts"], question["language"])
        return {"write": base64.b64encode(content).decode()}
    if question["do"] == "read":
        passages = [(text, _values(options)) for text, options in document.passages]
        return {"read": {"passages": passages, "notes": list(document.notes)}}
    characters = sum(len(passage.text) for passage in document.passages)
    if characters <= question["most"]:
        for passage in document.passages:
            check_markup(*passage)
    return {"count": characters}


def _values(options: TextOptions) -> dict[str, Any]:
    """Returns the options that a reader has set."""
    names = [one.name for one in dataclasses.fields(options)]
    return {name: getattr(options, name) for name in names if getattr(options, name) != getattr(DEFAULTS, name)}


if __name__ == "__main__":
    sys.exit(serve(answer, "reading it", MEMORY, COMPUTING, files=False))
