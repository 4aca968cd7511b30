"""Simulates the scheduler's future: when waiting jobs will start, and the behaviour with many jobs."""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import replace

from dragoman.services.jobs.scheduling.decide import NO_RULES, decide_queue
from dragoman.services.jobs.scheduling.entries import YIELD_SECONDS, Capacity, Entry, Outcome, Start, Stop, Yield
from dragoman.services.jobs.scheduling.queue import Queue
from dragoman.services.jobs.scheduling.rules import Rules
from dragoman.services.jobs.states import Quota, State

Seconds = Callable[[Entry], float]  # a job's running time from its start, undisturbed


class Simulation:
    """Jobs, time and passes; a job's real time may differ from the scheduler's expectation."""

    def __init__(
        self,
        queue: Queue,
        quotas: Mapping[str, Quota],
        capacity: Capacity,
        now: float,
        seconds: Seconds,
        rules: Rules = NO_RULES,
        start_up: float = 0.0,
    ) -> None:
        """Takes over a queue and changes it.

        Args:
            seconds: a job's running time, with its start-up.
            start_up: seconds of an attempt before its first step, in which the job makes no progress.
        """
        self.queue, self.quotas, self.capacity, self.now, self.seconds = queue, quotas, capacity, now, seconds
        self.rules, self.start_up = rules.copy(), start_up
        self.lost = 0.0  # start-up seconds of jobs that have yielded
        self.left: dict[str, float] = {}  # remaining seconds of jobs that have yielded
        self.again: set[str] = set()  # jobs that are yielding
        self.ended: dict[str, float] = {}
        self.first: dict[str, float] = {}  # time of each job's first start
        self.yields = 0
        self._events: list[tuple[float, int, str, int]] = []
        self._turn: dict[str, int] = {}  # a job's turn: events of earlier turns are void
        self._count = 0
        for job in queue.active.values():
            self._expect(job)

    @property
    def jobs(self) -> dict[str, Entry]:
        """Returns the jobs that have not ended, by id."""
        return self.queue.jobs

    def add(self, job: Entry) -> None:
        """Adds a waiting or active job."""
        self.queue.put(job)
        if job.active:
            self._expect(job)

    def _expect(self, job: Entry) -> None:
        """Schedules the end of an active job."""
        self._at(job.leaves(self.now, self.seconds(job)), job.id)

    def step(self) -> Outcome:
        """Runs a pass now and carries out its decisions."""
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
                    if whole > ran:  # else it ends before it could have yielded
                        self.lost += min(ran, self.start_up)
                        self.left[job.id] = whole - max(0.0, ran - self.start_up)
                        self.again.add(job.id)
                        self._at(self.now + YIELD_SECONDS, job.id)
                case Stop():
                    self.queue.put(replace(job, state=State.STOPPING))
                    self._at(self.now + YIELD_SECONDS, job.id)
        return outcome

    def next_event(self) -> float | None:
        """Returns when the next job ends or has yielded; None if nothing runs."""
        while self._events and self._events[0][3] != self._turn.get(self._events[0][2]):
            heapq.heappop(self._events)
        return self._events[0][0] if self._events else None

    def advance(self, until: float) -> None:
        """Lets time pass: ends the jobs that end by then."""
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
