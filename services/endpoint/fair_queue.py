"""The order of the work: clients take turns by tokens. No threads, so that a test can run it in a loop.

Every client has a tag, the tokens that it was given divided by its weight; the next line is of the client with the
smallest tag. A new client begins at the tag that is served now: a short request passes long ones, and none waits for
ever (start-time fair queueing: Goyal, Vin and Cheng, 1996). The requests of one client take turns in the same way, so
that many of them at once get no more than one does.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

LONGEST_WORD = 24  # letters; what is longer is no word
PIECE, PIECE_LINES = 1024, 64  # tokens, about, and lines at most of what a document asks at a time
LEAST = 16  # tokens that a line costs: the search may go as far for one word as for so many (`DecodeConfig.longest`)


@dataclass(eq=False)
class Request:
    """Items of one request that are decoded by one engine with one n-best size, and who waits for their answers.

    The future must not hold the request: a cycle would keep the engine, a whole model, until the next collection.
    """

    engine: Any
    items: Sequence[Any]
    costs: list[int]  # tokens of each item
    nbest: int = 1
    priority: int = 0  # a step doubles the share
    client: str = ""  # whose turn it takes; empty: the one of all that have no name
    taken: int = 0  # items in a batch or answered
    gone: bool = False  # nobody waits for its answer
    tag: float = 0.0
    future: asyncio.Future[Any] | None = None
    answers: list[Any] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> int:
        """Returns the number of waiting items."""
        return len(self.items) - self.taken

    @property
    def tokens(self) -> int:
        return sum(self.costs)

    def take(self) -> Any:
        """Takes the next item, and pays for it."""
        item, price = self.items[self.taken], self.price
        self.taken += 1
        self.tag += price
        return item

    @property
    def price(self) -> float:
        """Returns what the next item adds to the tags: a search for several translations goes on to its last step."""
        return max(LEAST, self.costs[self.taken]) * (1 if self.nbest == 1 else 2) / 2.0**self.priority


@dataclass(eq=False)
class _Client:
    """One client's waiting requests."""

    tag: float
    lines: int = 0  # waiting
    heap: list[tuple[float, int, Request]] = field(default_factory=list)
    now: float = 0.0  # the tag of its request that is served
    waits: bool = False  # it is among those that the lane looks at

    def first(self) -> Request | None:
        """Returns the request whose turn it is; forgets those that are gone."""
        while self.heap and self.heap[0][2].gone:
            heapq.heappop(self.heap)
        return self.heap[0][2] if self.heap else None


Batch = list[tuple[Request, list[Any]]]


@dataclass
class Lane:
    """Clients that take turns for batches of at most `lines` lines and, beyond the first line, `tokens` tokens."""

    lines: int
    tokens: int
    queued: int = 0  # lines waiting
    cost: int = 0  # tokens waiting
    _clients: dict[str, _Client] = field(default_factory=dict)  # that wait, or have had more than others
    _heap: list[tuple[float, int, _Client]] = field(default_factory=list)
    _now: float = 0.0  # the tag that is served
    _number: Iterator[int] = field(default_factory=itertools.count)

    def add(self, request: Request) -> None:
        """Adds a request at the end of those that have been given as little."""
        client = self._clients.setdefault(request.client, _Client(self._now))
        request.tag = client.now
        self._count(client, request.left, request.tokens)
        self._push(client, request)
        if not client.waits:
            client.tag = max(client.tag, self._now)
            self._wait(client)

    def drop(self, request: Request) -> None:
        """Forgets the waiting lines of a request that nobody waits for."""
        if not request.gone:
            request.gone = True
            if request.left:
                self._count(self._clients[request.client], -request.left, -sum(request.costs[request.taken :]))

    def drain(self) -> list[Request]:
        """Removes and returns all waiting requests."""
        waiting = [work for client in self._clients.values() for _, _, work in client.heap if not work.gone]
        for request in waiting:
            request.gone = True
        self._clients, self._heap, self.queued, self.cost = {}, [], 0, 0
        return waiting

    def crowding(self, request: Request, lines: int) -> list[Request]:
        """Returns waiting requests whose going makes room for `lines` of the request: the newest of the client that has
        most; none if it would then have fewer than the request's own client.
        """
        largest = max(self._clients.values(), key=lambda client: client.lines, default=None)
        own = self._clients.get(request.client)
        least = request.left + (own.lines if own else 0)
        newest = sorted(largest.heap, key=lambda entry: -entry[1]) if largest else []
        crowd: list[Request] = []
        for _, _, oldest in newest:
            if lines <= 0:
                break
            if not oldest.gone and not oldest.taken:
                crowd.append(oldest)
                lines -= oldest.left
        freed = sum(work.left for work in crowd)
        return crowd if largest and lines <= 0 and largest.lines - freed >= least else []

    def take(self, most: int | None = None, began: Callable[[Request], None] = lambda _: None) -> Batch:
        """Takes the next batch: (request, its items) of one engine and one n-best size; calls `began` for new requests.

        A request's items follow each other. The batch is empty if nothing waits. `most`: lines, if fewer than `lines`.
        """
        batch: dict[int, tuple[Request, list[Any]]] = {}
        first: Request | None = None
        lines, tokens = min(self.lines, most or self.lines), self.tokens
        others: list[tuple[_Client, tuple[float, int, Request]]] = []  # of other engines
        passed: list[_Client] = []  # have nothing (more) for this batch
        while self._heap and lines:
            client = self._heap[0][2]
            request = client.first()
            if request is None:
                passed.append(heapq.heappop(self._heap)[2])
                continue
            if first is not None and (request.engine is not first.engine or request.nbest != first.nbest):
                others.append((client, heapq.heappop(client.heap)))
                continue
            cost = request.costs[request.taken]
            if first is not None and cost > tokens:
                break
            if first is None:
                first, self._now = request, max(self._now, client.tag)
            if not request.taken:
                began(request)
            heapq.heappop(client.heap)
            client.now, client.tag = max(client.now, request.tag), client.tag + request.price
            batch.setdefault(id(request), (request, []))[1].append(request.take())
            lines, tokens = lines - 1, tokens - cost
            self._count(client, -1, -cost)
            if request.left:
                self._push(client, request)
            heapq.heapreplace(self._heap, (client.tag, next(self._number), client))
        for client, entry in others:
            heapq.heappush(client.heap, entry)
        self._look_again(passed, {request.client for request, _ in batch.values()})
        return list(batch.values())

    def _look_again(self, passed: Sequence[_Client], served: Container[str]) -> None:
        """Lets clients wait on that have requests; forgets those that were given no more than others.

        Where nobody waits any more, only those are remembered that are `served` now.
        """
        for client in passed:
            client.waits = False
            if client.heap:
                self._wait(client)
        if not self.queued:
            self._heap, self._clients = [], {name: client for name, client in self._clients.items() if name in served}
            for client in self._clients.values():
                client.waits, client.heap = False, []
        elif passed:
            self._clients = {
                name: client
                for name, client in self._clients.items()
                if client.waits or client.tag > self._now or client.heap
            }

    def _count(self, client: _Client, lines: int, tokens: int) -> None:
        client.lines += lines
        self.queued += lines
        self.cost += tokens

    def _wait(self, client: _Client) -> None:
        client.waits = True
        heapq.heappush(self._heap, (client.tag, next(self._number), client))

    def _push(self, client: _Client, request: Request) -> None:
        heapq.heappush(client.heap, (request.tag, next(self._number), request))


def is_long(costs: Sequence[int], turn: int) -> bool:
    """Returns True for a request that others should not wait for: more tokens than a turn, or an item of half of it."""
    return sum(costs) > turn or max(costs) > max(1, turn // 2)


def tokens_of(line: str) -> int:
    """Returns about as many tokens as a tokenizer makes of a line, rather too many than too few.

    A word of a language costs a token for four letters; what is longer than words are (no blanks, or a script without
    any) one for each character.
    """
    return 1 + sum([length // 4 + 1 if length <= LONGEST_WORD else length for length in map(len, line.split())])


def split_lines(lines: Sequence[str], most: int) -> Iterator[list[str]]:
    """Yields the lines in groups of about PIECE tokens and at most PIECE_LINES or `most` lines."""
    group: list[str] = []
    tokens = 0
    for line in lines:
        more = tokens_of(line)
        if group and (tokens + more > PIECE or len(group) == min(PIECE_LINES, most)):
            yield group
            group, tokens = [], 0
        group.append(line)
        tokens += more
    if group:
        yield group
