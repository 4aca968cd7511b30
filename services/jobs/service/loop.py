"""The loop that carries out the ledger: it plans, starts and asks jobs, and notices the end of attempts.

It needs nothing in memory: each look begins with the ledger and with observations, and every action may be repeated. So
it can be killed between any two steps.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from dragoman.model.errors import ServiceError, is_infrastructure
from dragoman.services.jobs.executor import Executor, Observation
from dragoman.services.jobs.ledger.access import Access
from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.ledger.ledger import ConflictError, Ledger
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.scheduling.entries import Capacity
from dragoman.services.jobs.service.accounts import Accounts
from dragoman.services.jobs.service.attempts import Attempts, describe_attempt
from dragoman.services.jobs.service.intake import Intake
from dragoman.services.jobs.service.metrics import LedgerMetrics, Metrics
from dragoman.services.jobs.service.scheduler import Scheduler
from dragoman.services.jobs.service.verdict import SHUTDOWN
from dragoman.services.jobs.settings import ServiceConfig
from dragoman.services.jobs.states import ACTIVE, ENDED, UNENDED, State
from dragoman.services.repeating import Repeating

CAPACITY_KEPT = 5.0  # seconds
LEISURE = 4.0  # pause between looks, in durations of the last one
logger = logging.getLogger(__name__)


class Loop:
    """One service's loop, in two threads: planning may take seconds, and nothing else waits for it."""

    def __init__(
        self, ledger: Ledger, access: Access, executor: Executor, intake: Intake, config: ServiceConfig, home: Path
    ) -> None:
        self.ledger, self.executor, self.intake, self.config, self.home = ledger, executor, intake, config, home
        self.metrics = Metrics()
        self.metrics.telemetry.registry.register(LedgerMetrics(ledger, access, self.resources, home))
        self.scheduler = Scheduler(ledger, access, config, self.metrics)
        self.accounts = Accounts(ledger, intake, self.metrics)
        self.attempts = Attempts(ledger, executor, intake, config, home, self.accounts)
        self.scheduler.first_steps = self.accounts.first_steps
        self.capacity: Capacity | None = None
        self.trouble: str | None = None  # why the cluster did not answer the last look
        self.admits = True  # False: nothing new is started
        self.rest: Callable[[bool], None] | None = None  # ends the cluster, or starts it again; None: it always runs
        self.rests = False
        self._worked = time.monotonic()  # when there was work last
        self._faults: dict[str, str] = {}  # job -> the failure of the last look at it
        self._looked = float("-inf")
        self._look = Repeating("loop", config.tick, self.look, 0.0, LEISURE)
        self._planning = Repeating("intake", config.tick, self._take, 0.0, LEISURE)

    def start(self) -> None:
        self._look.start()
        self._planning.start()

    def wake(self) -> None:
        """Looks now rather than at the next tick, because something has changed."""
        self._look.wake()
        self._planning.wake()

    def failure(self) -> str:
        """Returns why the last look, or the last plan, failed: the ledger or a disk; empty if none did."""
        return self._look.trouble or self._planning.trouble

    def resources(self) -> dict[str, float] | None:
        """Returns what jobs may use, by resource; None if the cluster did not answer the last look."""
        if self.capacity is None or self.trouble:
            return None
        nodes = self.capacity.nodes
        return {"cpu": sum(node.cpus for node in nodes), "gpu": sum(node.gpus for node in nodes)}

    def quiesce(self, timeout: float, hurry: threading.Event) -> bool:
        """Asks all jobs to yield and starts nothing new; returns True if all ended in order in time, before `hurry`."""
        self.admits = False
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and not hurry.wait(0.2):
            active = self.ledger.jobs(ACTIVE)
            for job in active:
                if job.state in (State.STARTING, State.RUNNING):
                    try:
                        self.ledger.change(job, State.YIELDING, "service", SHUTDOWN)
                    except ConflictError:
                        continue
            if not active:
                return True
            self.wake()
        return False

    def stop(self) -> None:
        """Ends the threads; jobs continue."""
        self._look.ending.set()
        self._planning.stop(30.0)
        self._look.stop(30.0)

    def _take(self) -> bool:
        """Returns False if no plan is to be tried again: what ends one or asks for one calls this too."""
        while self.intake.take(self.capacity) and not self._planning.ending.is_set():
            self._look.wake()
        return bool(self.intake.waits)

    def look(self) -> bool:
        """Looks at everything once: ends, starts, and requests. Returns False if no job is unended."""
        self.ledger.look()
        working = bool(self.ledger.jobs(UNENDED, limit=1))
        reachable = not self._let_rest(working) and self._look_at_cluster()
        active = self.ledger.jobs(ACTIVE, plans=True)
        self._settle(active, reachable)
        self._end_followers()
        if self.capacity is not None and reachable and self.admits:
            self.scheduler.run(self.capacity)
            settled = {(job.id, job.version) for job in active}
            for job in self.ledger.jobs([State.STARTING], ascending=True, plans=True):
                if (job.id, job.version) not in settled:
                    self._guarded(job, partial(self.attempts.hand_over, job))
        return working

    def _let_rest(self, working: bool) -> bool:
        """Returns True if the cluster rests, as there has been no work for a while; what it has stays known."""
        if working or self.capacity is None:
            self._worked = time.monotonic()
        rests = self.rest is not None and 0 < self.config.rest < time.monotonic() - self._worked
        if self.rest is not None and rests != self.rests:
            self.rest(rests)
            self.rests, self._looked = rests, float("-inf")
        return rests

    def _look_at_cluster(self) -> bool:
        """Returns True if the cluster answers; reads its capacity every few seconds."""
        if time.monotonic() - self._looked < CAPACITY_KEPT and self.capacity is not None:
            return True
        try:
            self.capacity = self.executor.capacity()
        except ServiceError as problem:
            self.trouble = str(problem)
            self._looked = float("-inf")
            return False
        self._looked, self.trouble = time.monotonic(), None
        return True

    def _settle(self, active: Sequence[Job], reachable: bool) -> None:
        seen: dict[str, Observation] = {}
        for name in self._faults.keys() - {job.id for job in active}:
            del self._faults[name]
        unknown = [job for job in active if attempt_of(self.home, job.id, job.attempt).held() is None]
        if unknown and reachable:
            try:
                seen = self.executor.observe([describe_attempt(job) for job in unknown])
            except ServiceError as problem:
                self.trouble = str(problem)
                self._looked = float("-inf")
        for job in active:
            observed = seen.get(f"{job.id}-a{job.attempt}")
            self._guarded(job, partial(self.attempts.settle, job, observed))

    def _guarded(self, job: Job, task: Callable[[], object]) -> None:
        """Does something for one job; a failure there does not keep others from their turn. It is logged once."""
        try:
            task()
            self._faults.pop(job.id, None)
        except ConflictError:  # its owner was faster: the next look sees it
            logger.info("job %s has changed in the meantime", job.id)
        except SQLAlchemyError:  # concerns all jobs
            raise
        except Exception as problem:
            fault = f"{type(problem).__name__}: {problem}".splitlines()[0][:300]
            if self._faults.get(job.id) != fault:
                logger.warning("job %s: %s", job.id, fault, exc_info=None if is_infrastructure(problem) else problem)
            self._faults[job.id] = fault
            if isinstance(problem, ServiceError):  # the cluster may be away: ask it
                self._looked = float("-inf")

    def notes(self, job: Job) -> list[str]:
        """Returns the faults of what a job has left, and of the last look at it; phrases for its page."""
        notes: list[str] = []
        if job.attempt:
            attempt_of(self.home, job.id, job.attempt).record(notes)
        if job.id in self._faults:
            notes.append(f"the service could not see to this job: {self._faults[job.id]}")
        return notes

    def _end_followers(self) -> None:
        """Ends jobs that come after one that has not succeeded: they will never start."""
        following = self.ledger.following()
        states = self.ledger.states(sorted({other for job in following for other in job.after}))
        for job in following:
            for other in job.after:
                state = states.get(other)
                if state is None or (state in ENDED and state != State.SUCCEEDED):
                    reason = f"it comes after job {other}, which {'was removed' if state is None else f'is {state}'}"
                    self._guarded(job, partial(self.ledger.change, job, State.FAILED, "scheduler", reason))
                    break
