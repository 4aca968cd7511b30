"""The scheduler's jobs, kept in order between passes: a changed job costs one insertion in a list.

Waiting jobs are grouped by owner and size. Within a pass free resources and quotas only shrink, so a refusal of one job
of a group applies to the rest of it, and a job without space is too large for all of its size. So a pass visits only
the heads of the groups.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator

from dragoman.services.jobs.scheduling.entries import Entry
from dragoman.services.jobs.scheduling.room import Needs
from dragoman.services.jobs.states import State

Group = tuple[str, Needs]
Place = tuple[int, int, str]
Turn = tuple[int, float, int, str]
Share = Callable[[str], float]  # owner -> share


def place(job: Entry) -> Place:
    """Returns a job's order within its owner's: by priority, then by age."""
    return -job.priority, job.age, job.id


def turn(job: Entry, share: Share) -> Turn:
    """Returns a job's turn: by priority, then by its owner's share, then by age."""
    return -job.priority, share(job.account), job.age, job.id


class Queue:
    """Jobs by id. Jobs that come after others which have not succeeded have no turn."""

    def __init__(self, jobs: Iterable[Entry] = ()) -> None:
        self.jobs: dict[str, Entry] = {}
        self.active: dict[str, Entry] = {}
        self._groups: dict[Group, list[Place]] = {}
        self._since: list[tuple[float, int, str]] = []  # jobs with a turn, longest wait first
        for job in jobs:
            self.put(job)

    def copy(self) -> "Queue":
        other = Queue()
        other.jobs, other.active = dict(self.jobs), dict(self.active)
        other._groups = {group: list(places) for group, places in self._groups.items()}
        other._since = list(self._since)
        return other

    def put(self, job: Entry) -> None:
        """Enters a new or changed job."""
        self.remove(job.id)
        self.jobs[job.id] = job
        if job.active:
            self.active[job.id] = job
        elif _has_turn(job):
            insort(self._groups.setdefault((job.account, job.needs), []), place(job))
            insort(self._since, (job.since, job.age, job.id))

    def remove(self, name: str) -> None:
        """Removes a job, if present."""
        job = self.jobs.pop(name, None)
        if job is None:
            return
        self.active.pop(name, None)
        if not job.active and _has_turn(job):
            group = (job.account, job.needs)
            places = self._groups[group]
            del places[bisect_left(places, place(job))]
            if not places:
                del self._groups[group]
            del self._since[bisect_left(self._since, (job.since, job.age, job.id))]

    def before(self, job: Entry, share: Share) -> list[Entry]:
        """Returns the jobs whose turn is before a job's while nothing more starts."""
        entries, own = list[Entry](), share(job.account)
        for (owner, _), places in self._groups.items():
            # one owner's places are in the order of turns; another owner's come first or last within a priority
            first = share(owner)
            age = job.age if first == own else float("-inf") if first > own else float("inf")
            end = bisect_left(places, (-job.priority, age, job.id))
            entries += [self.jobs[name] for _, _, name in places[:end]]
        return entries

    def longest(self, until: float) -> Iterator[Entry]:
        """Yields the jobs that have waited since `until` or longer, longest first."""
        for since, _, name in self._since:
            if since > until:
                return
            yield self.jobs[name]

    def highest(self) -> int | None:
        """Returns the highest priority of waiting jobs; None if none waits."""
        return max((-places[0][0] for places in self._groups.values()), default=None)

    def walk(self, share: Share = lambda _: 0.0, unseen: Callable[[str], bool] = lambda _: False) -> "Walk":
        """Walks from the first turn on. The queue must not change meanwhile; shares may grow.

        Args:
            unseen: returns True if an owner's first waiting job must be visited although its size cannot start.
        """
        return Walk(self.jobs, self._groups, share, unseen)


class Walk:
    """Waiting jobs turn by turn; skips groups that cannot start any more."""

    def __init__(
        self, jobs: dict[str, Entry], groups: dict[Group, list[Place]], share: Share, unseen: Callable[[str], bool]
    ) -> None:
        self._jobs, self._groups, self._share, self._unseen = jobs, groups, share, unseen
        self._heads: list[tuple[Turn, int, Group]] = []  # the next job of each group, and its position there
        self._closed: set[Needs | Group] = set()  # sizes and groups that cannot start any more
        self._until: dict[Needs | Group, tuple[float, float]] = {}
        self._last: tuple[int, Group] | None = None
        for group, places in groups.items():
            self._heads.append((self._turn(places[0], group), 0, group))
        heapq.heapify(self._heads)

    def next(self) -> Entry | None:
        """Returns the next job; None at the end."""
        if self._last is not None:
            self._push(*self._last)
        while self._heads:
            turn, number, group = heapq.heappop(self._heads)
            if group in self._closed or (group[1] in self._closed and not self._unseen(group[0])):
                continue
            if turn[1] != self._share(group[0]):  # the share has grown since the job was put here
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
        """Marks that no job of this size or group can start in this pass any more."""
        self._closed.add(closed)

    def keep_short(self, kept: Needs | Group, now: float, until: float) -> None:
        """Marks that of this size or group only jobs that end by `until` can start any more."""
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
