"""Reads, prepares and writes documents in child processes, because a stranger's file may take any time and memory."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dragoman.model.errors import ServiceError
from dragoman.services.subprocesses.pool import Pool, TooLongError
from dragoman.services.texts.documents.document import DocumentError

MODULE = "dragoman.services.endpoint.documents.reading_worker"
COMPUTING = 20.0  # CPU seconds to read or write a document, or to prepare a group of its passages
AT_ONCE = 2  # documents in translation, each with a process of its own
PROCESSES = AT_ONCE + 2  # at most; one client never holds the last one
Reply = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class GoneError(ServiceError):
    """The process has ended in the middle of a document: it was killed, or has crashed."""


class Translated(NamedTuple):
    """A translated document."""

    content: bytes
    notes: list[str]  # what its owner has to be told
    characters: int


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
        question = {"do": "count", "name": name, "content": base64.b64encode(content).decode(), "most": most}
        with _limits_named():
            return int(_read(self.pool.ask(question, owner), "count"))

    async def translate(
        self, name: str, content: bytes, terms: dict[str, str] | None, language: str, owner: str, reply: Reply
    ) -> Translated:
        """Returns a document in another language; `reply` answers what its process asks for (`translating.py`).

        Raises:
            DocumentError, ServiceError: as `count`; and as `reply`.
        """
        question = {
            "do": "translate",
            "name": name,
            "content": base64.b64encode(content).decode(),
            "terms": terms,
            "language": language,
        }
        async with self._session(owner) as ask:
            with _limits_named():
                line = await ask(question)
                while line and "asks" in (values := json.loads(line)):
                    line = await ask(await reply(values["asks"]))
        found = _read(line, "translate")
        return Translated(base64.b64decode(found["content"]), list(found["notes"]), int(found["characters"]))

    @contextlib.asynccontextmanager
    async def _session(self, owner: str) -> AsyncIterator[Callable[[dict[str, Any]], Awaitable[str]]]:
        """Yields what asks one process; beside the event loop, which waits for none."""
        with ExitStack() as stack:
            ask = await asyncio.to_thread(stack.enter_context, self.pool.session(owner))
            yield lambda question: asyncio.to_thread(ask, json.dumps(question))


@contextlib.contextmanager
def _limits_named() -> Iterator[None]:
    try:
        yield
    except TooLongError as limit:
        raise DocumentError(f"it takes more than {limit}") from None


def _read(line: str, do: str) -> Any:
    """Returns what a process answers. Raises as `Reading.count`."""
    if not line:
        raise GoneError("the process that reads documents has ended")
    answer: dict[str, Any] = json.loads(line)
    if "refused" in answer:
        raise DocumentError(answer["refused"])
    if do not in answer:
        raise ServiceError(f"the process that reads documents failed: {answer.get('failed')}")
    return answer[do]
