"""The jobs that passes look at, kept in order from one pass to the next: a job that changes costs one place in a list.

Waiting jobs stand in groups of one owner and one size. Within a pass room and quotas only shrink, so what refuses one
of a group refuses the rest of it, and what finds no room is too large for all of its size: a pass walks along the heads
of the groups instead of all that wait.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator

from services.jobs.scheduling.entries import Entry
from services.jobs.scheduling.room import Needs
from services.jobs.states import State

Group = tuple[str, Needs]
Place = tuple[int, int, str]
Turn = tuple[int, float, int, str]
Share = Callable[[str], float]  # of an owner


def place(job: Entry) -> Place:
    """Return a job's place among those of its owner: by priority, then by age."""
    return -job.priority, job.age, job.id


def turn(job: Entry, share: Share) -> Turn:
    """Return a job's turn: by priority, then by its owner's share, then by age."""
    return -job.priority, share(job.owner), job.age, job.id


class Queue:
    """Jobs by id. Those that come after others which have not succeeded have no turn."""

    def __init__(self, jobs: Iterable[Entry] = ()) -> None:
        self.jobs: dict[str, Entry] = {}
        self.active: dict[str, Entry] = {}
        self._groups: dict[Group, list[Place]] = {}
        self._since: list[tuple[float, int, str]] = []  # of those that have a turn, the longest wait first
        for job in jobs:
            self.put(job)

    def copy(self) -> "Queue":
        other = Queue()
        other.jobs, other.active = dict(self.jobs), dict(self.active)
        other._groups = {group: list(places) for group, places in self._groups.items()}
        other._since = list(self._since)
        return other

    def put(self, job: Entry) -> None:
        """Enter a job, or what it has become."""
        self.remove(job.id)
        self.jobs[job.id] = job
        if job.active:
            self.active[job.id] = job
        elif _has_turn(job):
            insort(self._groups.setdefault((job.owner, job.needs), []), place(job))
            insort(self._since, (job.since, job.age, job.id))

    def remove(self, name: str) -> None:
        """Forget a job, if it is there."""
        job = self.jobs.pop(name, None)
        if job is None:
            return
        self.active.pop(name, None)
        if not job.active and _has_turn(job):
            group = (job.owner, job.needs)
            places = self._groups[group]
            del places[bisect_left(places, place(job))]
            if not places:
                del self._groups[group]
            del self._since[bisect_left(self._since, (job.since, job.age, job.id))]

    def before(self, job: Entry, share: Share) -> list[Entry]:
        """The jobs whose turn comes before a job's while nothing more is started."""
        found, own = list[Entry](), share(job.owner)
        for (owner, _), places in self._groups.items():
            # the places of one owner are in the order of its turns; another's come first within a priority, or last
            first = share(owner)
            age = job.age if first == own else float("-inf") if first > own else float("inf")
            end = bisect_left(places, (-job.priority, age, job.id))
            found += [self.jobs[name] for _, _, name in places[:end]]
        return found

    def waiting(self, least: int) -> list[Entry]:
        """The jobs of this priority or a higher one that wait for their turn."""
        return [self.jobs[name] for places in self._groups.values() for turn, _, name in places if -turn >= least]

    def longest(self, until: float) -> Iterator[Entry]:
        """The jobs that have waited since `until` or longer, the longest first."""
        for since, _, name in self._since:
            if since > until:
                return
            yield self.jobs[name]

    def highest(self) -> int | None:
        """The highest priority of those that wait for their turn; None where nobody does."""
        return max((-places[0][0] for places in self._groups.values()), default=None)

    def walk(self, share: Share = lambda _: 0.0, unseen: Callable[[str], bool] = lambda _: False) -> "Walk":
        """From the first turn on. The queue must not change meanwhile; shares may grow.

        Args:
            unseen: tells of an owner whether the first of that owner's jobs that waits has to be looked at, though
                nobody of its size can start.
        """
        return Walk(self.jobs, self._groups, share, unseen)


class Walk:
    """Waiting jobs turn by turn; groups of which nobody can start any more are left out."""

    def __init__(
        self,
        jobs: dict[str, Entry],
        groups: dict[Group, list[Place]],
        share: Share,
        unseen: Callable[[str], bool],
    ) -> None:
        self._jobs, self._groups, self._share, self._unseen = jobs, groups, share, unseen
        self._heads: list[tuple[Turn, int, Group]] = []  # the next of each group, and where it stands there
        self._closed: set[Needs | Group] = set()  # sizes and groups of which nobody can start any more
        self._until: dict[Needs | Group, tuple[float, float]] = {}
        self._last: tuple[int, Group] | None = None
        for group, places in groups.items():
            self._heads.append((self._turn(places[0], group), 0, group))
        heapq.heapify(self._heads)

    def next(self) -> Entry | None:
        """The next job; None at the end."""
        if self._last is not None:
            self._push(*self._last)
        while self._heads:
            turn, number, group = heapq.heappop(self._heads)
            if group in self._closed or (group[1] in self._closed and not self._unseen(group[0])):
                continue
            if turn[1] != self._share(group[0]):  # it has grown since the job was put here
                self._push(number, group)
                continue
            name = turn[3]
            if self._too_long(name, group):
                self._push(number + 1, group)
                continue
            self._last = (number + 1, group)
            return self._jobs[name]
        self._last = None
        return None

    def close(self, closed: Needs | Group) -> None:
        """Nobody of this size, or of this group, can start in this pass any more."""
        self._closed.add(closed)

    def keep_short(self, kept: Needs | Group, now: float, until: float) -> None:
        """Of this size, or of this group, only those can start any more that will have ended by then."""
        self._until[kept] = (now, until)

    def _too_long(self, name: str, group: Group) -> bool:
        for key in group, group[1]:
            if key in self._until and (key is group or not self._unseen(group[0])):
                now, until = self._until[key]
                if now + self._jobs[name].high > until:
                    return True
        return False

    def _turn(self, where: Place, group: Group) -> Turn:
        return where[0], self._share(group[0]), where[1], where[2]

    def _push(self, number: int, group: Group) -> None:
        places = self._groups[group]
        while number < len(places) and self._too_long(places[number][2], group):
            number += 1
        if number < len(places):
            # places differ, so the heap never compares groups
            heapq.heappush(self._heads, (self._turn(places[number], group), number, group))


def _has_turn(job: Entry) -> bool:
    return job.state == State.WAITING and not job.blocked
