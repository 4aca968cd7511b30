"""Playing the scheduler forward: when a waiting job will start, and how it does with many jobs."""

import heapq
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from services.jobs.scheduling.decide import NO_RULES, YIELD_SECONDS, decide_queue
from services.jobs.scheduling.entries import Capacity, Entry, Outcome, Quota, Start, Stop, Yield
from services.jobs.scheduling.queue import Queue
from services.jobs.scheduling.rules import Rules
from services.jobs.states import State

Seconds = Callable[[Entry], float]  # how long a job runs from its start, if nobody stops it


class Simulation:
    """Jobs, time and passes; what a job really takes may differ from what the scheduler expects of it."""

    def __init__(
        self,
        jobs: Iterable[Entry] | Queue,
        quotas: Mapping[str, Quota],
        capacity: Capacity,
        now: float,
        seconds: Seconds,
        rules: Rules = NO_RULES,
        start_up: float = 0.0,
    ) -> None:
        """A queue is taken over, and changed.

        Args:
            seconds: how long a job runs, with its start-up.
            start_up: seconds of an attempt until its first step, which do not bring the job further.
        """
        self.quotas, self.capacity, self.now, self.seconds = quotas, capacity, now, seconds
        self.rules, self.start_up = rules.copy(), start_up
        self.lost = 0.0  # seconds of start-up of those that have yielded
        self.queue = jobs if isinstance(jobs, Queue) else Queue()
        self.left: dict[str, float] = {}  # seconds of those that have yielded
        self.again: set[str] = set()  # that are making room
        self.ended: dict[str, float] = {}
        self.first: dict[str, float] = {}  # when each started first
        self.yields = 0
        self._events: list[tuple[float, int, str, int]] = []
        self._turn: dict[str, int] = {}  # of a job: an event of an earlier turn is void
        self._count = 0
        if isinstance(jobs, Queue):
            for job in jobs.active.values():
                self._expect(job)
        else:
            for job in jobs:
                self.add(job)

    @property
    def jobs(self) -> dict[str, Entry]:
        """Those that have not ended, by id."""
        return self.queue.jobs

    def add(self, job: Entry) -> None:
        """One more, waiting or at work."""
        self.queue.put(job)
        if job.active:
            self._expect(job)

    def _expect(self, job: Entry) -> None:
        """The end of one that is at work."""
        end = job.ends(self.now, self.seconds(job))
        going = job.state in (State.YIELDING, State.STOPPING)
        self._at(min(self.now + YIELD_SECONDS, end) if going else end, job.id)

    def step(self) -> Outcome:
        """A pass now, and what it decided done."""
        outcome = decide_queue(self.queue, self.quotas, self.capacity, self.now, self.rules)
        for decision in outcome.decisions:
            job = self.jobs[decision.job]
            match decision:
                case Start(workers=workers):
                    self.first.setdefault(job.id, self.now)
                    begun = replace(job, state=State.RUNNING, workers=workers, started=self.now)
                    self.queue.put(replace(begun, stepped=self.now + self.start_up))
                    self._at(self.now + self.left.get(job.id, self.seconds(job)), job.id)
                case Yield():
                    self.yields += 1
                    whole, ran = self.left.get(job.id, self.seconds(job)), self.now + YIELD_SECONDS - job.started
                    self.queue.put(replace(job, state=State.YIELDING, preempted=job.preempted + 1))
                    if whole > ran:  # else it ends before it could have made room
                        self.lost += min(ran, self.start_up)
                        self.left[job.id] = whole - max(0.0, ran - self.start_up)
                        self.again.add(job.id)
                        self._at(self.now + YIELD_SECONDS, job.id)
                case Stop():
                    self.queue.put(replace(job, state=State.STOPPING))
                    self._at(self.now + YIELD_SECONDS, job.id)
        return outcome

    def next_event(self) -> float | None:
        """When the next job ends or has made room; None where nothing runs."""
        while self._events and self._events[0][3] != self._turn.get(self._events[0][2]):
            heapq.heappop(self._events)
        return self._events[0][0] if self._events else None

    def advance(self, until: float) -> None:
        """Let time pass: what ends by then has ended."""
        while (at := self.next_event()) is not None and at <= until:
            _, _, name, _ = heapq.heappop(self._events)
            job = self.jobs[name]
            self.rules.charge(job, at)
            if name in self.again:
                self.again.remove(name)
                self.queue.put(replace(job, state=State.WAITING, workers=0, since=at))
            else:
                self.queue.remove(name)
                self.ended[name] = at
            self._turn[name] += 1
        self.now = max(self.now, until)

    def _at(self, when: float, name: str) -> None:
        self._count += 1
        self._turn[name] = self._turn.get(name, 0) + 1
        heapq.heappush(self._events, (when, self._count, name, self._turn[name]))


def forecast(
    jobs: Iterable[Entry] | Queue,
    quotas: Mapping[str, Quota],
    capacity: Capacity,
    now: float,
    target: str,
    seconds: Seconds,
    passes: int = 200,
    budget: float = 0.15,
    rules: Rules = NO_RULES,
) -> float | None:
    """When `target` will start if every job runs for `seconds`; None where that is too far away to say: more than so
    many passes, or more than `budget` seconds of computing. A queue that is handed over stays as it is.

    Jobs that wait for others are taken to wait for ever; so are those that the cluster never holds.
    """
    simulation = Simulation(jobs.copy() if isinstance(jobs, Queue) else jobs, quotas, capacity, now, seconds, rules)
    until = time.monotonic() + budget
    for _ in range(passes):
        if time.monotonic() > until:
            return None
        simulation.step()
        if target in simulation.first:
            return simulation.first[target]
        at = simulation.next_event()
        if at is None:
            return None
        simulation.advance(at)
    return None
