"""Reads, prepares and writes in child processes what takes long: documents, and texts of many words or signs.

A stranger's file may take any time and memory, and a thread that computes holds up every request of this process.
"""

import asyncio
import base64
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import orjson

from dragoman.model.errors import ServiceError
from dragoman.services.endpoint.documents.messages import plain_options, plain_translation, read_result
from dragoman.services.subprocesses.pool import Pool, Process, TooLongError
from dragoman.services.texts.documents.document import DocumentError
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.translating import Result, Task

MODULE = "dragoman.services.endpoint.documents.reading_worker"
COMPUTING = 20.0  # CPU seconds to read or write a document, or to prepare a group of its passages, or a request's texts
AT_ONCE = 2  # documents in translation, each with a process of its own
PROCESSES = AT_ONCE + max(2, os.cpu_count() or 1)  # at most; one client never holds the last one
Reply = Callable[[dict[str, Any]], Coroutine[Any, Any, dict[str, Any]]]


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
        """Returns a document in another language; `reply` answers what its process asks for (`reading_worker.py`).

        Raises DocumentError, ServiceError: as `count`; and as `reply`.
        """
        question = {"name": name, "content": base64.b64encode(content).decode(), "terms": terms, "language": language}
        message = await self._ask("translate", question, owner, reply)
        return Translated(base64.b64decode(message["content"]), list(message["notes"]), int(message["characters"]))

    async def results(self, task: Task, owner: str, reply: Reply) -> list[Result]:
        """Returns what a task's texts become; `reply` is asked as the models are. Raises as `translate`."""
        question = {
            **vars(task),
            "options": plain_options(task.options[0]),  # a request has the same for all texts
            "models": [vars(model) for model in task.models],
            "first": list(map(plain_translation, task.first)),
        }
        return list(map(read_result, await self._ask("results", question, owner, reply)))

    async def spoken(self, texts: Sequence[str], options: TextOptions, most: int, owner: str) -> list[str]:
        """Returns the first `most` characters of what is in a language in each text. Raises as `count`."""
        question = {"texts": texts, "options": plain_options(options), "most": most}
        return list(await self._ask("spoken", question, owner))

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.pool.most, "reading")

    async def _ask(self, do: str, question: dict[str, Any], owner: str, reply: Reply | None = None) -> Any:
        """Returns what a process answers, which may ask back: beside the event loop, which waits for none."""
        turn = self.pool.turn(owner)
        try:
            await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            turn.add_done_callback(partial(self._pass_on, owner))
            raise
        talk = _Talk(self.pool, owner, asyncio.get_running_loop(), reply)
        talking = asyncio.get_running_loop().run_in_executor(self._threads, talk.run, {"do": do, **question})
        try:
            with _limits_named():
                return _read(await asyncio.shield(talking), do)
        except asyncio.CancelledError:
            talking.add_done_callback(lambda talking: talking.cancelled() or talking.exception())  # nobody else looks
            talk.stop()
            raise

    def _pass_on(self, owner: str, turn: "Future[None]") -> None:
        if not (turn.cancelled() or turn.exception()):
            self.pool.give_back(owner)


@dataclass
class _Talk:
    """A question to a process and what it asks back, on a thread of its own."""

    pool: Pool
    owner: str
    loop: asyncio.AbstractEventLoop
    reply: Reply | None
    _process: Process | None = None
    _replying: "Future[dict[str, Any]] | None" = None
    _stopped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, question: dict[str, Any]) -> str:
        """Returns the line of the answer. Raises as `reply`."""
        problem: BaseException | None = None
        with self.pool.lent(self.owner) as process:
            process.load()  # even if nobody waits any more: the next one would wait as long
            with self._lock:
                self._process = None if self._stopped else process
            line = self._process.ask(orjson.dumps(question).decode(), self.pool.computing) if self._process else ""
            while line and "asks" in (values := orjson.loads(line)):
                try:
                    answer = self._answer(values["asks"])
                except BaseException as raised:
                    problem, answer = raised, {"stop": True}  # then it is ready for another question
                line = process.ask(orjson.dumps(answer).decode(), self.pool.computing)
        if problem is not None:
            raise problem
        return line

    def stop(self) -> None:
        """Ends the process if it computes, and what it waits for otherwise: nobody waits for the answer."""
        with self._lock:
            self._stopped = True
            if self._process is not None and not (self._replying and self._replying.cancel()):
                self._process.kill()

    def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            if self._stopped or self.reply is None:
                raise CancelledError
            self._replying = asyncio.run_coroutine_threadsafe(self.reply(question), self.loop)
        return self._replying.result()


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
    answer: dict[str, Any] = orjson.loads(line)
    if "refused" in answer:
        raise DocumentError(answer["refused"])
    if do not in answer:
        raise ServiceError(f"the process that reads documents failed: {answer.get('failed')}")
    return answer[do]
