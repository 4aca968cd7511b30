"""Reads and writes documents in child processes, because a stranger's file may take any time and memory."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.model.errors import ServiceError
from dragoman.services.subprocesses.pool import Pool, TooLongError
from dragoman.services.texts.documents.document import DocumentError, Passage
from dragoman.services.texts.options import TextOptions

MODULE = "dragoman.services.endpoint.documents.reading_worker"
COMPUTING = 20.0  # CPU seconds to read, check or write a document
PROCESSES = 3  # at most; one client never holds the last one


@dataclass
class Reading:
    """The child processes of one endpoint."""

    pool: Pool = field(default_factory=lambda: Pool(MODULE, PROCESSES, COMPUTING))

    def count(self, name: str, content: bytes, most: int, owner: str) -> int:
        """Returns a document's characters, of which at most `most` are allowed; its markup is checked up to then.

        Raises:
            DocumentError: it cannot be read, or takes too much time or memory.
            ServiceError: the process has gone, or the server stops.
        """
        return int(self._ask("count", name, content, owner, most=most)["count"])

    def read(self, name: str, content: bytes, owner: str) -> tuple[list[Passage], list[str]]:
        """Returns a document's passages, and what its owner has to be told. Raises as `count`."""
        found = self._ask("read", name, content, owner)["read"]
        return [Passage(text, _options(values)) for text, values in found["passages"]], list(found["notes"])

    def write(self, name: str, content: bytes, texts: Sequence[str], language: str, owner: str) -> bytes:
        """Returns a document with texts in the place of its passages. Raises as `count`."""
        found = self._ask("write", name, content, owner, texts=list(texts), language=language)
        return base64.b64decode(found["write"])

    def _ask(self, do: str, name: str, content: bytes, owner: str, **more: Any) -> dict[str, Any]:
        question = {"do": do, "name": name, "content": base64.b64encode(content).decode(), **more}
        try:
            line = self.pool.ask(question, owner)
        except TooLongError as limit:
            raise DocumentError(f"it takes more than {limit}") from None
        answer: dict[str, Any] = json.loads(line) if line else {"failed": "it has gone"}
        if "refused" in answer:
            raise DocumentError(answer["refused"])
        if do not in answer:
            raise ServiceError(f"the process that reads documents failed: {answer.get('failed')}")
        return answer


def _options(values: dict[str, Any]) -> TextOptions:
    plain: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    return TextOptions(**plain)
