"""Plays jobs through the scheduler: time passes, jobs end after their real seconds, and every event is a pass."""

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from dragoman.services.jobs.scheduling.decide import decide
from dragoman.services.jobs.scheduling.entries import Capacity, Entry, Outcome, Rules, Start, Stop, Yield
from dragoman.services.jobs.scheduling.shares import Usage
from dragoman.services.jobs.states import Quota, State

CHECKPOINT = 60.0  # seconds until a job that is asked to yield has ended


class Simulation:
    """`seconds` is a job's real running time; `first` the time of each job's first start."""

    def __init__(
        self,
        jobs: Iterable[Entry],
        capacity: Capacity,
        seconds: Callable[[Entry], float],
        quotas: Mapping[str, Quota] | None = None,
        rules: Rules | None = None,
        half_life: float = 3600.0,
    ) -> None:
        self.jobs = {job.id: job for job in jobs}
        self.capacity, self.seconds, self.quotas, self.rules = capacity, seconds, quotas or {}, rules or Rules()
        self.usage, self.now = Usage(half_life), 0.0
        self.first: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self._left: dict[str, float] = {}  # seconds that a job still runs
        self._events: list[tuple[float, str, int]] = []
        self._turn: dict[str, int] = {}  # events of earlier turns are void

    def decide(self) -> Outcome:
        used = self.usage.held([job for job in self.jobs.values() if job.active], self.now)
        return decide(self.jobs.values(), self.capacity, self.now, self.quotas, replace(self.rules, used=used))

    def step(self) -> Outcome:
        """Runs a pass now and carries out its decisions."""
        outcome = self.decide()
        for decision in outcome.decisions:
            job = self.jobs[decision.job]
            match decision:
                case Start(workers=workers):
                    self.first.setdefault(job.id, self.now)
                    started = replace(job, state=State.RUNNING, workers=workers, started=self.now, stepped=self.now)
                    self.jobs[job.id] = started
                    self._at(self.now + self._left.setdefault(job.id, self.seconds(job)), job.id)
                case Yield():
                    self._left[job.id] -= self.now - job.started
                    self.jobs[job.id] = replace(job, state=State.YIELDING)
                    self._at(self.now + CHECKPOINT, job.id)
                case Stop():
                    self.jobs[job.id] = replace(job, state=State.STOPPING)
                    self._at(self.now + CHECKPOINT, job.id)
        return outcome

    def next_event(self) -> float | None:
        while self._events and self._events[0][2] != self._turn[self._events[0][1]]:
            heapq.heappop(self._events)
        return self._events[0][0] if self._events else None

    def advance(self, until: float) -> None:
        """Lets time pass: ends the jobs that end by then."""
        while (at := self.next_event()) is not None and at <= until:
            name = heapq.heappop(self._events)[1]
            job = self.jobs[name]
            self.usage.charge(job.owner, *job.needs.total(job.workers), job.started, at)
            if job.state == State.YIELDING and self._left[name] > 0:
                self.jobs[name] = replace(job, state=State.WAITING, workers=0)
            else:
                del self.jobs[name]
                self.ended[name] = at
        self.now = max(self.now, until)

    def run(self, arrivals: Iterable[tuple[float, Entry]] = ()) -> None:
        """Plays until every job has ended; `arrivals` come in order."""
        for moment, job in arrivals:
            while (at := self.next_event()) is not None and at <= moment:
                self.advance(at)
                self.step()
            self.advance(moment)
            self.jobs[job.id] = job
            self.step()
        while self.jobs:
            self.step()
            at = self.next_event()
            assert at is not None, f"{len(self.jobs)} jobs never start"
            self.advance(at)

    def _at(self, when: float, name: str) -> None:
        self._turn[name] = self._turn.get(name, 0) + 1
        heapq.heappush(self._events, (when, name, self._turn[name]))
