"""The order of the work: requests take turns by tokens. No threads and no clock, so that a test can run it in a loop.

Every request has a tag, the tokens that it was given divided by its weight; the next line is of the request with the
smallest tag. A new request begins at the tag that is served now: a short one passes long ones, and none waits for ever
(start-time fair queueing: Goyal, Vin and Cheng, 1996).
"""

import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Engine = TypeVar("Engine")
Item = TypeVar("Item")
PRIORITIES = range(-8, 9)  # a step doubles the share
LONGEST_WORD = 24  # letters; what is longer is no word


@dataclass(eq=False)
class Request(Generic[Engine, Item]):
    """Items of one request that are decoded by one engine with one n-best size."""

    engine: Engine
    items: list[Item]
    costs: list[int]  # tokens of each item
    nbest: int = 1
    priority: int = 0
    taken: int = 0  # items in a batch or answered
    gone: bool = False  # nobody waits for its answer
    tag: float = 0.0

    @property
    def left(self) -> int:
        """Returns the number of waiting items."""
        return len(self.items) - self.taken

    @property
    def tokens(self) -> int:
        """Returns the tokens of all its items."""
        return sum(self.costs)

    def take(self) -> Item:
        """Takes the next item, and pays for it."""
        item, cost = self.items[self.taken], self.costs[self.taken]
        self.taken += 1
        self.tag += cost / 2.0**self.priority
        return item


Work = TypeVar("Work", bound=Request[Any, Any])


@dataclass
class Lane(Generic[Work]):
    """Requests that take turns for batches of at most `lines` lines and, beyond the first line, `tokens` tokens."""

    lines: int
    tokens: int
    queued: int = 0  # lines waiting
    cost: int = 0  # tokens waiting
    _heap: list[tuple[float, int, Work]] = field(default_factory=list)
    _now: float = 0.0  # the tag that is served
    _number: Iterator[int] = field(default_factory=itertools.count)

    def add(self, request: Work) -> None:
        """Adds a request at the end of those that have been given as little."""
        request.tag = self._now
        self.queued += request.left
        self.cost += request.tokens
        self._push(request)

    def drop(self, request: Work) -> None:
        """Forgets the waiting lines of a request that nobody waits for."""
        if not request.gone:
            request.gone = True
            self.queued -= request.left
            self.cost -= sum(request.costs[request.taken :])

    def drain(self) -> list[Work]:
        """Removes and returns all waiting requests."""
        found = [request for _, _, request in self._heap if not request.gone]
        self._heap, self.queued, self.cost = [], 0, 0
        return found

    def take(
        self, most: int | None = None, began: Callable[[Work], None] = lambda _: None
    ) -> list[tuple[Work, list[Any]]]:
        """Takes the next batch: (request, its items) of one engine and one n-best size; calls `began` for new requests.

        A request's items follow each other. The batch is empty if nothing waits. `most`: lines, if fewer than `lines`.
        """
        batch: dict[int, tuple[Work, list[Any]]] = {}
        first: Work | None = None
        lines, tokens, others = min(self.lines, most or self.lines), self.tokens, []
        while self._heap and lines:
            tag, _, request = self._heap[0]
            if request.gone:
                heapq.heappop(self._heap)
                continue
            if first is not None and (request.engine is not first.engine or request.nbest != first.nbest):
                others.append(heapq.heappop(self._heap))
                continue
            cost = request.costs[request.taken]
            if first is not None and cost > tokens:
                break
            heapq.heappop(self._heap)
            if first is None:
                first, self._now = request, max(self._now, tag)
            if not request.taken:
                began(request)
            batch.setdefault(id(request), (request, []))[1].append(request.take())
            lines, tokens = lines - 1, tokens - cost
            self.queued, self.cost = self.queued - 1, self.cost - cost
            if request.left:
                self._push(request)
        for entry in others:
            heapq.heappush(self._heap, entry)
        return list(batch.values())

    def _push(self, request: Work) -> None:
        heapq.heappush(self._heap, (request.tag, next(self._number), request))


def is_long(costs: Sequence[int], turn: int) -> bool:
    """Returns True for a request that others should not wait for: more tokens than a turn, or an item of half of it."""
    return sum(costs) > turn or max(costs) > max(1, turn // 2)


def tokens_of(line: str) -> int:
    """Returns about as many tokens as a tokenizer makes of a line, rather too many than too few.

    A word of a language costs a token for four letters; what is longer than words are (no blanks, or a script without
    any) one for each character.
    """
    return 1 + sum(length // 4 + 1 if length <= LONGEST_WORD else length for length in map(len, line.split()))
