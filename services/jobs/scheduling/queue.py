"""The jobs that passes look at, kept in order from one pass to the next: a job that changes costs one place in a list.

Waiting jobs stand in groups of one owner and one size. Within a pass room and quotas only shrink, so what refuses one
of a group refuses the rest of it, and what finds no room is too large for all of its size: a pass walks along the heads
of the groups instead of all that wait.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable

from services.jobs.scheduling.entries import Entry
from services.jobs.scheduling.room import Needs
from services.jobs.states import State

Group = tuple[str, Needs]
Place = tuple[int, int, str]


def place(job: Entry) -> Place:
    """A job's turn: by priority, then by age."""
    return -job.priority, job.age, job.id


class Queue:
    """Jobs by id. Those that come after others which have not succeeded have no turn."""

    def __init__(self, jobs: Iterable[Entry] = ()) -> None:
        self.jobs: dict[str, Entry] = {}
        self.active: dict[str, Entry] = {}
        self._groups: dict[Group, list[Place]] = {}
        for job in jobs:
            self.put(job)

    def copy(self) -> "Queue":
        other = Queue()
        other.jobs, other.active = dict(self.jobs), dict(self.active)
        other._groups = {group: list(places) for group, places in self._groups.items()}
        return other

    def put(self, job: Entry) -> None:
        """Enter a job, or what it has become."""
        self.remove(job.id)
        self.jobs[job.id] = job
        if job.active:
            self.active[job.id] = job
        elif _has_turn(job):
            insort(self._groups.setdefault((job.owner, job.needs), []), place(job))

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

    def before(self, job: Entry) -> list[Entry]:
        """The jobs whose turn comes before a job's."""
        own = place(job)
        found = (places[: bisect_left(places, own)] for places in self._groups.values())
        return [self.jobs[name] for places in found for _, _, name in places]

    def walk(self) -> "Walk":
        """From the first turn on. The queue must not change meanwhile."""
        return Walk(self.jobs, self._groups)


class Walk:
    """Waiting jobs turn by turn; groups of which nobody can start any more are left out."""

    def __init__(self, jobs: dict[str, Entry], groups: dict[Group, list[Place]]) -> None:
        self._jobs, self._groups = jobs, groups
        self._heads: list[tuple[Place, int, Group]] = []  # the next of each group, and where it stands there
        self._closed: set[Needs | Group] = set()  # sizes and groups of which nobody can start any more
        self._until: dict[Needs, tuple[float, float]] = {}
        self._last: tuple[int, Group] | None = None
        for group, places in groups.items():
            self._heads.append((places[0], 0, group))
        heapq.heapify(self._heads)

    def next(self) -> Entry | None:
        """The next job; None at the end."""
        if self._last is not None:
            self._push(*self._last)
        while self._heads:
            (_, _, name), number, group = heapq.heappop(self._heads)
            if group in self._closed or group[1] in self._closed:
                continue
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

    def keep_short(self, needs: Needs, now: float, until: float) -> None:
        """Of this size only those can start any more that will have ended by then."""
        self._until[needs] = (now, until)

    def _too_long(self, name: str, group: Group) -> bool:
        if group[1] not in self._until:
            return False
        now, until = self._until[group[1]]
        return now + self._jobs[name].high > until

    def _push(self, number: int, group: Group) -> None:
        places = self._groups[group]
        while number < len(places) and self._too_long(places[number][2], group):
            number += 1
        if number < len(places):
            # places differ, so the heap never compares groups
            heapq.heappush(self._heads, (places[number], number, group))


def _has_turn(job: Entry) -> bool:
    return job.state == State.WAITING and not job.blocked
