"""The micro-batcher: one thread takes at most `limit` queued items, answers them, and takes again.

There is no timer. Without load a request passes at once; under load the queue fills while the thread works, so batches
grow by themselves. The queue has limited items: a request that does not fit is refused, with an estimate of when to
retry, instead of filling memory. An item is a line to translate, or a question about words.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

Engine = TypeVar("Engine")
Item = TypeVar("Item")
Answer = TypeVar("Answer")
logger = logging.getLogger(__name__)


class QueueFullError(Exception):
    """The queue has no room for the request's items; retry after `retry_after` seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"busy: try again in {retry_after} s")
        self.retry_after = retry_after


class EngineStoppedError(Exception):
    """The thread does not run (any more): no request gets an answer."""


class Watching(Protocol):
    """Observer of waiting times and batch times, in seconds."""

    def waited(self, seconds: float) -> None: ...

    def decoded(self, lines: int, seconds: float) -> None: ...


@dataclass(eq=False)
class _Request(Generic[Engine, Item, Answer]):
    """Items of one request, with the engine that was current when it came."""

    engine: Engine
    items: list[Item]
    nbest: int
    future: Future[list[Answer]] = field(default_factory=Future)
    answers: list[Answer] = field(default_factory=list)
    taken: int = 0  # items in a batch or answered
    since: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> int:
        """Returns the number of waiting items."""
        return len(self.items) - self.taken

    def take(self, most: int) -> list[Item]:
        """Takes at most so many of the waiting items."""
        items = self.items[self.taken : self.taken + most]
        self.taken += len(items)
        return items


class Batcher(Generic[Engine, Item, Answer]):
    """Requests in, batches out.

    `answer(engine, items, nbest)` returns one answer per item, in order, and runs only in the batcher's thread. A
    request keeps its first engine, so that its answers never mix two models.
    """

    def __init__(
        self,
        answer: Callable[[Engine, list[Item], int], Sequence[Answer]],
        *,
        limit: int = 64,
        capacity: int = 1024,
        watch: Watching | None = None,
    ) -> None:
        self._answer = answer
        self._watch = watch
        self.limit = limit
        self.capacity = capacity
        self._queue: deque[_Request[Engine, Item, Answer]] = deque()
        self._queued = 0  # items waiting
        self._rate = 0.0  # items per second, a moving average
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="batcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Returns True while requests are processed; False once the thread has ended, for whatever reason."""
        return self._thread.is_alive() and not self._stopping

    @property
    def queued(self) -> int:
        """Returns the number of waiting items."""
        return self._queued

    def submit(self, engine: Engine, items: Sequence[Item], nbest: int = 1) -> Future[list[Answer]]:
        """Queues the items of one request; the future holds one answer per item.

        Raises:
            QueueFullError: not all of them fit.
            EngineStoppedError: the thread has ended.
        """
        request: _Request[Engine, Item, Answer] = _Request(engine, list(items), nbest)
        if not request.items:
            request.future.set_result([])
            return request.future
        with self._changed:
            if not self.alive:
                raise EngineStoppedError("its thread does not run")
            if self._queued + len(request.items) > self.capacity:
                raise QueueFullError(self._retry_after())
            self._queue.append(request)
            self._queued += len(request.items)
            self._changed.notify()
        request.future.add_done_callback(lambda _: self._drop_waiting(request))
        return request.future

    def stop(self, timeout: float = 30.0) -> None:
        """Finishes the queue, then ends the thread; requests left after `timeout` seconds fail."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        self._fail_all()

    def _retry_after(self) -> int:
        """Returns the seconds until the current queue is processed, 1 to 60."""
        return min(60, max(1, math.ceil(self._queued / self._rate))) if self._rate else 1

    def _run(self) -> None:
        batch: list[tuple[_Request[Engine, Item, Answer], list[Item]]] = []
        try:
            while batch := self._take():
                self._work(batch)
        finally:  # a normal end leaves no batch; otherwise the thread died in the middle of one
            self._fail_all([request for request, _ in batch])

    def _take(self) -> list[tuple[_Request[Engine, Item, Answer], list[Item]]]:
        """Takes the next batch: (request, its items) of one engine and one n-best size. Empty at the end."""
        with self._changed:
            while not self._queue and not self._stopping:
                self._changed.wait()
            batch: list[tuple[_Request[Engine, Item, Answer], list[Item]]] = []
            room = self.limit
            kept: deque[_Request[Engine, Item, Answer]] = deque()
            while self._queue and room:
                request = self._queue.popleft()
                first = batch[0][0] if batch else request
                if request.engine is not first.engine or request.nbest != first.nbest:
                    kept.append(request)
                    continue
                if self._watch is not None and not request.taken:
                    self._watch.waited(time.monotonic() - request.since)
                items = request.take(room)
                batch.append((request, items))
                room -= len(items)
                self._queued -= len(items)
                if request.left:
                    kept.append(request)
            self._queue.extendleft(reversed(kept))
            return batch

    def _drop_waiting(self, request: _Request[Engine, Item, Answer]) -> None:
        """Removes the waiting items of a request that has failed or whose client has gone."""
        with self._changed:
            if request in self._queue:
                self._queue.remove(request)
                self._queued -= request.left

    def _work(self, batch: list[tuple[_Request[Engine, Item, Answer], list[Item]]]) -> None:
        started = time.monotonic()
        items = [item for _, part in batch for item in part]
        request = batch[0][0]
        try:
            answers: list[Answer | Exception] = list(self._answer(request.engine, items, request.nbest))
        except Exception as problem:  # one bad item fails a whole batch in the engine: find it
            kind = type(problem).__name__  # the message may contain a user's text
            logger.warning("a batch of %d failed (%s); its items are tried one by one", len(items), kind)
            answers = [self._answer_one(request.engine, item, request.nbest) for item in items]
        seconds = time.monotonic() - started
        if self._watch is not None:
            self._watch.decoded(len(items), seconds)
        rate = len(items) / max(seconds, 1e-6)
        self._rate = rate if not self._rate else 0.8 * self._rate + 0.2 * rate
        position = 0
        for request, part in batch:
            self._deliver(request, answers[position : position + len(part)])
            position += len(part)

    def _answer_one(self, engine: Engine, item: Item, nbest: int) -> Answer | Exception:
        try:
            return self._answer(engine, [item], nbest)[0]
        except Exception as problem:  # an engine's error answers this request and must not end the thread
            return problem

    def _deliver(self, request: _Request[Engine, Item, Answer], answers: Sequence[Answer | Exception]) -> None:
        for answer in answers:
            if isinstance(answer, Exception):
                _finish(request.future, answer)
                return
        request.answers.extend(answers)  # type: ignore[arg-type]  # exceptions were handled above
        if len(request.answers) == len(request.items):
            _finish(request.future, request.answers)

    def _fail_all(self, working: Sequence[_Request[Engine, Item, Answer]] = ()) -> None:
        with self._changed:
            self._stopping = True
            waiting, self._queue, self._queued = list(self._queue), deque(), 0
        for request in {*working, *waiting}:
            if request.future.done():
                continue
            _finish(request.future, EngineStoppedError("its thread has ended"))


def _finish(future: Future[Answer], outcome: Answer | Exception) -> None:
    """Sets the result unless the client has cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
