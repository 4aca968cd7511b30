"""The micro-batcher: threads take at most `limit` queued items by turns, answer them, and take again.

Without load a request passes at once; under load the queue fills while a thread works, so batches grow by themselves.
There are two lanes with a thread each. Short requests have one. A request of more than `turn` tokens, or with an item
of more than half of that, goes to the other and is decoded beside them in turns of `turn` tokens: nobody waits for a
long text to end. Within a lane requests take turns too (fair_queue.py). Each lane has room for `capacity` items: a
request that does not fit is refused, with an estimate of when to retry, instead of filling memory. An item is a line to
translate, or a question about words.
"""

import asyncio
import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from starlette.exceptions import HTTPException

from dragoman.services.endpoint.fair_queue import Batch, Lane, Request, is_long

Engine = TypeVar("Engine")
Item = TypeVar("Item")
Answer = TypeVar("Answer")
LINGER = 0.15  # of the last batch's time, for its clients to come back: one batch of all costs less than two
GAP = 0.01  # of that time without a new request ends the wait: several that come together do not wait for each other
QUIET = 1.0  # seconds without short requests before long ones take all cores
logger = logging.getLogger(__name__)


class QueueFullError(HTTPException):
    """429: the queue has no room for the request's items; retry after `retry_after` seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(429, f"Slowdown: busy: try again in {retry_after} s", {"Retry-After": str(retry_after)})
        self.retry_after = retry_after


class TooManyTokensError(HTTPException):
    """400: the request has more tokens than one request may have."""


class EngineStoppedError(Exception):
    """A thread does not run (any more): no request gets an answer."""


class Watching(Protocol):
    """Observer of waiting times and batch times, in seconds."""

    def waited(self, seconds: float) -> None: ...

    def decoded(self, lines: int, seconds: float) -> None: ...


Outcome: TypeAlias = list[Any] | Exception


@dataclass
class _Worker:
    """A lane, the thread that takes from it, and what that thread waits for."""

    lane: Lane
    changed: threading.Condition
    thread: threading.Thread = field(init=False)
    wanted: int = 1  # queued items that wake the thread
    newest: float = -math.inf  # time of the last request, monotonic clock
    expected: int = 0  # items that were queued or in work when the last batch ended
    ended: float = -math.inf  # of the last batch, monotonic clock
    seconds: float = 0.0  # of the last batch


class Batcher(Generic[Engine, Item, Answer]):
    """Requests in, batches out.

    `answer(engine, items, nbest)` returns one answer per item, in order; two threads call it. A request keeps its first
    engine, so that its answers never mix two models. `tokens` returns about what an item costs.
    """

    def __init__(
        self,
        answer: Callable[[Engine, list[Item], int], Sequence[Answer]],
        *,
        limit: int = 64,
        capacity: int = 1024,
        tokens: Callable[[Item], int] = lambda _: 1,
        batch_tokens: int = 4096,
        turn: int = 512,
        most_tokens: int = 1 << 31,
        watch: Watching | None = None,
    ) -> None:
        self._answer = answer
        self._tokens = tokens
        self._watch = watch
        self.limit = limit
        self.capacity = capacity
        self.turn = turn
        self.most_tokens = most_tokens
        self._rate = 0.0  # tokens per second, a moving average
        self._lock = threading.Lock()
        self._started = self._stopping = False
        self._short = _Worker(Lane(limit, batch_tokens), threading.Condition(self._lock))
        self._long = _Worker(Lane(limit, min(turn, batch_tokens)), threading.Condition(self._lock))
        self._workers = {"batcher": self._short, "batcher-long": self._long}
        for name, worker in self._workers.items():
            worker.thread = threading.Thread(target=self._run, args=(worker,), name=name, daemon=True)

    def start(self) -> None:
        self._started = True
        for worker in self._workers.values():
            worker.thread.start()

    @property
    def alive(self) -> bool:
        """Returns True while requests are processed; False once a thread has ended, for whatever reason."""
        return self._started and not self._stopping  # a thread that ends stops all

    @property
    def queued(self) -> int:
        """Returns the number of waiting items."""
        return self._short.lane.queued + self._long.lane.queued

    async def ask(
        self, engine: Engine, items: Sequence[Item], nbest: int = 1, priority: int = 0, client: str = ""
    ) -> list[Answer]:
        """Returns one answer per item. Cancelling it drops the items that wait.

        Raises:
            TooManyTokensError: they have more tokens than one request may have.
            QueueFullError: not all of them fit.
            EngineStoppedError: a thread has ended.
        """
        if not items:
            return []
        costs = [self._tokens(item) for item in items]
        if sum(costs) > self.most_tokens:
            counts = f"{sum(costs):,} tokens are too many; at most {self.most_tokens:,} are allowed"
            raise TooManyTokensError(400, f"Invalid request: {counts}")
        future: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        request = Request(engine, list(items), costs, nbest, priority, client, future=future)
        with self._lock:
            if not self.alive:
                raise EngineStoppedError("its thread does not run")
            worker = self._worker(request)
            refused = self._make_room(worker.lane, request)
            worker.lane.add(request)
            worker.newest = request.since
            if worker.lane.queued >= worker.wanted:
                worker.changed.notify()
        if refused:
            _settle(refused)
        try:
            return await future
        except asyncio.CancelledError:
            self._drop(request)
            raise

    def stop(self, timeout: float = 30.0) -> None:
        """Finishes the queue, then ends the threads; requests left after `timeout` seconds fail."""
        end = time.monotonic() + timeout
        with self._lock:
            self._stopping = True
            for worker in self._workers.values():
                worker.changed.notify()
        for worker in self._workers.values():
            if worker.thread.ident is not None:
                worker.thread.join(max(0.0, end - time.monotonic()))
        self._fail_all()

    def _make_room(self, lane: Lane, request: Request) -> list[tuple[Request, Outcome]]:
        """Drops waiting requests of the client that fills the queue, so that `request` fits; returns their refusals.

        Raises QueueFullError: its own client has as many lines as any other.
        """
        missing = lane.queued + len(request.items) - self.capacity
        if missing <= 0:
            return []
        crowding = lane.crowding(request, missing)
        full = QueueFullError(self._retry_after(lane.cost))
        if not crowding:
            raise full
        for entry in crowding:
            lane.drop(entry)
        return [(entry, full) for entry in crowding]

    def _worker(self, request: Request) -> _Worker:
        """Returns the worker whose lane is the request's."""
        return self._long if is_long(request.costs, self.turn) else self._short

    def _retry_after(self, tokens: int) -> int:
        """Returns the seconds until so many tokens are processed, 1 to 60."""
        return min(60, max(1, math.ceil(tokens / self._rate))) if self._rate else 1

    def _run(self, worker: _Worker) -> None:
        batch: Batch = []
        try:
            while batch := self._take(worker):
                self._work(worker, batch)
                batch = []  # an idle thread holds no model
        finally:  # a normal end leaves no batch; otherwise the thread died in the middle of one
            if batch or not self._stopping:
                self._fail_all([request for request, _ in batch])

    def _take(self, worker: _Worker) -> Batch:
        """Takes the next batch; empty at the end."""
        with self._lock:
            while True:
                while not worker.lane.queued and not self._stopping:
                    worker.changed.wait()
                self._linger(worker)
                batch = worker.lane.take(1 if worker is self._long and self._contended() else None, self._began)
                if batch or self._stopping:  # else all that waited has been dropped
                    return batch

    def _contended(self) -> bool:
        """Returns True while short requests come: a long one then takes line by line, and so one core of several."""
        return bool(self._short.lane.queued) or time.monotonic() - self._short.ended < QUIET

    def _linger(self, worker: _Worker) -> None:
        """Waits a little for as many items as there were before, and for those that come with them."""
        worker.wanted = min(worker.expected, self.limit)
        end = time.monotonic() + LINGER * worker.seconds
        while worker.expected > 1 and 0 < worker.lane.queued < self.limit and not self._stopping:
            pause = end if worker.lane.queued < worker.wanted else min(end, worker.newest + GAP * worker.seconds)
            left = pause - time.monotonic()
            if left <= 0:
                break
            worker.changed.wait(left)
        worker.wanted = 1

    def _began(self, request: Request) -> None:
        if self._watch is not None:
            self._watch.waited(time.monotonic() - request.since)

    def _drop(self, request: Request) -> None:
        """Drops the waiting items of a request that has failed or whose client has gone."""
        with self._lock:
            self._worker(request).lane.drop(request)

    def _work(self, worker: _Worker, batch: Batch) -> None:
        started = time.monotonic()
        items = [item for _, part in batch for item in part]
        engine, nbest = batch[0][0].engine, batch[0][0].nbest
        try:
            answers: list[Answer | Exception] = list(self._answer(engine, items, nbest))
        except Exception as problem:  # one bad item fails a whole batch in the engine: find it
            kind = type(problem).__name__  # the message may contain a user's text
            logger.warning("a batch of %d failed (%s); its items are tried one by one", len(items), kind)
            answers = [self._answer_one(engine, item, nbest) for item in items]
        worker.ended = time.monotonic()
        worker.seconds = worker.ended - started
        worker.expected = len(items) + worker.lane.queued
        if self._watch is not None:
            self._watch.decoded(len(items), worker.seconds)
        tokens = sum(sum(request.costs[request.taken - len(part) : request.taken]) for request, part in batch)
        rate = tokens / max(worker.seconds, 1e-6)
        self._rate = rate if not self._rate else 0.8 * self._rate + 0.2 * rate
        finished: list[tuple[Request, Outcome]] = []
        position = 0
        for request, part in batch:
            outcome = self._outcome(request, answers[position : position + len(part)])
            if outcome is not None:
                finished.append((request, outcome))
            position += len(part)
        _settle(finished)

    def _answer_one(self, engine: Engine, item: Item, nbest: int) -> Answer | Exception:
        try:
            return self._answer(engine, [item], nbest)[0]
        except Exception as problem:  # an engine's error answers this request and must not end the thread
            return problem

    def _outcome(self, request: Request, answers: Sequence[Answer | Exception]) -> Outcome | None:
        """Returns the request's answers or its first error; None if items are still to be answered."""
        for answer in answers:
            if isinstance(answer, Exception):
                self._drop(request)
                return answer
        request.answers.extend(answers)
        return request.answers if len(request.answers) == len(request.items) else None

    def _fail_all(self, working: Sequence[Request] = ()) -> None:
        with self._lock:
            self._stopping = True
            waiting = [request for worker in self._workers.values() for request in worker.lane.drain()]
            for worker in self._workers.values():
                worker.changed.notify()
        failed = dict.fromkeys((*working, *waiting))
        _settle([(request, EngineStoppedError("its thread has ended")) for request in failed])


def _settle(finished: Sequence[tuple[Request, Any]]) -> None:
    """Sets the results of requests: one wake-up for each event loop."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = defaultdict(list)
    for request, outcome in finished:
        assert request.future is not None, "made with the request"
        loops[request.future.get_loop()].append((request.future, outcome))
    for loop, futures in loops.items():
        if not loop.is_closed():  # it ended before its answers came
            loop.call_soon_threadsafe(_set_all, futures)


def _set_all(futures: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, outcome in futures:
        if future.done():  # the client has gone
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
