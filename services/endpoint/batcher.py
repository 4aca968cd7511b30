"""The micro-batcher: one thread takes what is queued, at most `limit` items, answers it, and takes again.

There is no timer. Under no load a request goes through at once; under load the queue fills while the thread works, and
so the batches grow by themselves. The queue is bounded in items: what does not fit is refused at the door, with an
estimate of when to come again, rather than held in memory. An item is a line to translate, or a question about words.
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
    """The queue has no room for the request's items; `retry_after` says in how many seconds it may have."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"busy: try again in {retry_after} s")
        self.retry_after = retry_after


class EngineStoppedError(Exception):
    """The thread does not run (any more): nothing will be answered."""


class Watching(Protocol):
    """Who is told how long requests wait, and how long batches take. Times in seconds."""

    def waited(self, seconds: float) -> None: ...

    def decoded(self, lines: int, seconds: float) -> None: ...


@dataclass(eq=False)
class _Request(Generic[Engine, Item, Answer]):
    """Items that belong together, with the engine that was current when they came."""

    engine: Engine
    items: list[Item]
    nbest: int
    future: Future[list[Answer]] = field(default_factory=Future)
    answers: list[Answer] = field(default_factory=list)
    taken: int = 0  # items that are in a batch or answered
    since: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> int:
        """Items that wait."""
        return len(self.items) - self.taken

    def take(self, most: int) -> list[Item]:
        """At most so many of the items that wait; they no longer do."""
        items = self.items[self.taken : self.taken + most]
        self.taken += len(items)
        return items


class Batcher(Generic[Engine, Item, Answer]):
    """Requests in, batches out.

    `answer(engine, items, nbest)` returns an answer an item, in order, and runs in the batcher's thread only. A
    request keeps the engine that it came with, so that its answers are never a mixture of two models.
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
        self._rate = 0.0  # items a second, a moving average
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="batcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether requests are being worked on; false once the thread has ended, for whatever reason."""
        return self._thread.is_alive() and not self._stopping

    @property
    def queued(self) -> int:
        """Items that wait."""
        return self._queued

    def submit(self, engine: Engine, items: Sequence[Item], nbest: int = 1) -> Future[list[Answer]]:
        """Queue the items of one request; the future holds an answer an item.

        Raises:
            QueueFullError: there is no room for all of them.
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
        request.future.add_done_callback(lambda _: self._leave(request))
        return request.future

    def stop(self, timeout: float = 30.0) -> None:
        """Finish what is queued, then end the thread; what is left after `timeout` seconds fails."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        self._fail_all()

    def _retry_after(self) -> int:
        """Seconds until the queue that stands now will be worked off, 1 to 60."""
        return min(60, max(1, math.ceil(self._queued / self._rate))) if self._rate else 1

    def _run(self) -> None:
        batch: list[tuple[_Request[Engine, Item, Answer], list[Item]]] = []
        try:
            while batch := self._take():
                self._work(batch)
        finally:  # at the end there is no batch; anything else is the thread's death in the middle of one
            self._fail_all([request for request, _ in batch])

    def _take(self) -> list[tuple[_Request[Engine, Item, Answer], list[Item]]]:
        """The next batch: (request, those of its items); of one engine and one n-best size. Empty: the end."""
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

    def _leave(self, request: _Request[Engine, Item, Answer]) -> None:
        """What still waits of a request that is done leaves the queue: it has failed, or its client has gone."""
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
        except Exception as problem:  # one bad item fails a whole batch in the engine: find out which one it is
            kind = type(problem).__name__  # its message may hold what a user wrote
            logger.warning("a batch of %d failed (%s); its items are tried one by one", len(items), kind)
            answers = [self._alone(request.engine, item, request.nbest) for item in items]
        seconds = time.monotonic() - started
        if self._watch is not None:
            self._watch.decoded(len(items), seconds)
        rate = len(items) / max(seconds, 1e-6)
        self._rate = rate if not self._rate else 0.8 * self._rate + 0.2 * rate
        position = 0
        for request, part in batch:
            self._deliver(request, answers[position : position + len(part)])
            position += len(part)

    def _alone(self, engine: Engine, item: Item, nbest: int) -> Answer | Exception:
        try:
            return self._answer(engine, [item], nbest)[0]
        except Exception as problem:  # whatever the engine raised is this request's answer, not the thread's end
            return problem

    def _deliver(self, request: _Request[Engine, Item, Answer], answers: Sequence[Answer | Exception]) -> None:
        for answer in answers:
            if isinstance(answer, Exception):
                _finish(request.future, answer)
                return
        request.answers.extend(answers)  # type: ignore[arg-type]  # exceptions were dealt with above
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
    """Set the result unless the client has cancelled meanwhile."""
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
