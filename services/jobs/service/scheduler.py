"""A scheduler's pass over the ledger: reads without a lock, decides, and writes only if no other pass came between.

A counter is compared and set within the transaction, so one of two schedulers starts again with the other's results."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from dragoman.services.jobs.ledger.access import Access
from dragoman.services.jobs.ledger.database import Attempt, Change, Job, Meta
from dragoman.services.jobs.ledger.ledger import PASS, SHORT, ConflictError, Ledger
from dragoman.services.jobs.ledger.statements import NEWEST
from dragoman.services.jobs.scheduling.decide import decide
from dragoman.services.jobs.scheduling.entries import Capacity, Entry, Outcome, Rules, Start, Stop, Yield
from dragoman.services.jobs.scheduling.room import Needs
from dragoman.services.jobs.scheduling.shares import Usage
from dragoman.services.jobs.service.metrics import Metrics
from dragoman.services.jobs.settings import ServiceConfig
from dragoman.services.jobs.states import ACTIVE, State

YIELDING_VERBS = frozenset({"train"})  # commands that resume where they were
LIVE = sorted({State.WAITING, *ACTIVE})
COLUMNS = (
    *(Job.id, Job.version, Job.owner, Job.verb, Job.state, Job.priority, Job.queued, Job.choices, Job.cpus, Job.gpus),
    *(Job.run, Job.workers, Job.started, Job.max_seconds, Job.spent, Job.seconds, Job.after),
)
READ_AGAIN = 30.0  # seconds after which the queue is read again though nothing seems to have changed
HALF_LIVES = 10  # after which usage is negligible
LATE = 60.0  # seconds that the end of an attempt may be committed after it


def entry(row: Any, states: Mapping[str, str]) -> Entry:
    """Returns the scheduler's view of a job with COLUMNS. `states`: of the jobs that it comes after."""
    left = None if row.max_seconds is None else max(0.0, row.max_seconds - row.spent)
    return Entry(
        row.id,
        row.owner,
        State(row.state),
        row.priority,
        row.queued,
        Needs(tuple(row.choices) or (1,), row.cpus, row.gpus),
        run=row.run,
        workers=row.workers,
        started=row.started or 0.0,
        most=None if row.state == State.STARTING else left,  # it has used no time
        seconds=row.seconds,
        blocked=next((other for other in row.after if states.get(other) != State.SUCCEEDED), ""),
        yields=row.verb in YIELDING_VERBS,
    )


class Scheduler:
    """One service's scheduler."""

    def __init__(self, ledger: Ledger, access: Access, config: ServiceConfig, metrics: Metrics) -> None:
        self.ledger, self.access, self.metrics = ledger, access, metrics
        self.rules = Rules(dict(config.fair_share.weights), config.preempt_after)
        self.outcome = Outcome()  # of the last pass: what lists, pages and `why` say
        self.entries: Mapping[str, Entry] = {}  # its jobs by id
        self.seconds = 0.0  # its duration
        # Returns when some of the running jobs began their first step; called if a job of higher priority waits.
        self.first_steps: Callable[[Sequence[str]], Mapping[str, float | None]] = lambda _: {}
        self._usage = Usage(config.fair_share.half_life) if config.fair_share.half_life else None
        self._lock = threading.Lock()
        self._seen, self._read_at = -1, float("-inf")  # the last change, and when the queue was read (monotonic)
        self._charged: dict[tuple[str, int], float] = {}  # counted ended attempts, and their ends
        self._counted: float | None = None  # the end of the last counted one
        with ledger.database.write() as session:
            if session.get(Meta, "passes") is None:
                session.execute(insert(Meta).values(key="passes", value="0"))

    def run(self, capacity: Capacity) -> Outcome | None:
        """Runs one pass and writes it; returns None if another scheduler was quicker."""
        number = self.look(capacity)
        outcome = self.outcome
        return outcome if not outcome.decisions or self._write(outcome.decisions, number) else None

    def look(self, capacity: Capacity) -> str:
        """Decides a pass without writing it; returns the number of the last one that was written."""
        began = time.perf_counter()
        with self._lock:
            number = self._read()
            entries = self._with_first_steps(self.entries)
            now = self.ledger.now()
            active = [job for job in entries.values() if job.active]
            used = self._usage.held(active, now) if self._usage else {}
            rules = replace(self.rules, used=used)
            self.outcome = decide(entries.values(), capacity, now, self.access.quotas(), rules)
        self.seconds = time.perf_counter() - began
        self.metrics.passes.observe(self.seconds)
        return number

    def _read(self) -> str:
        """Reads what has changed in the queue; returns the number of the last pass."""
        with self.ledger.database.read() as session:
            number = session.scalars(select(Meta.value).where(Meta.key == "passes")).one()
            newest = session.scalar(NEWEST) or 0
            known = self.entries if time.monotonic() - self._read_at < READ_AGAIN else {}
            if known and newest == self._seen:
                return number
            self._charge(session)
            query = select(*COLUMNS).where(Job.state.in_(LIVE))
            changed: set[str | None] = set()
            if known:  # jobs that come after others are read again: the others may have ended
                changed = {*session.scalars(select(Change.job).where(Change.id > self._seen))}
                changed |= {job.id for job in known.values() if job.blocked}
                query = query.where(Job.id.in_(changed - {None}))
            rows = session.execute(query).all()
        states = self.ledger.states(sorted({other for row in rows for other in row.after}))
        kept = {name: job for name, job in known.items() if name not in changed}
        self.entries = kept | {row.id: entry(row, states) for row in rows}
        self._seen = newest
        if not known:
            self._read_at = time.monotonic()
        return number

    def _charge(self, session: Session) -> None:
        """Counts what owners' attempts held that have ended since the last check."""
        if self._usage is None:
            return
        now = self.ledger.now()
        since = now - HALF_LIVES * self._usage.half_life if self._counted is None else self._counted - LATE
        query = (
            select(Attempt.job, Attempt.number, Attempt.workers, Attempt.decided, Attempt.ended)
            .add_columns(Job.owner, Job.cpus, Job.gpus)
            .join(Job, Job.id == Attempt.job)
            .where(Attempt.ended > since)
        )
        for job, number, workers, decided, ended, owner, cpus, gpus in session.execute(query):
            if (job, number) not in self._charged:
                self._usage.charge(owner, workers * cpus, workers * gpus, decided, ended)
                self._charged[(job, number)] = ended
                self._counted = max(self._counted or 0.0, ended)
        self._counted = now if self._counted is None else self._counted
        for name in [name for name, ended in self._charged.items() if ended <= self._counted - LATE]:
            del self._charged[name]

    def _with_first_steps(self, entries: Mapping[str, Entry]) -> Mapping[str, Entry]:
        """Returns the jobs, those that could be asked to yield with the beginning of their first step."""
        highest = max((job.priority for job in entries.values() if not (job.active or job.blocked)), default=None)
        lower = [
            name
            for name, job in entries.items()
            if highest is not None and job.state == State.RUNNING and job.yields and job.priority < highest
        ]
        steps = self.first_steps(lower) if lower else {}
        return {**entries, **{name: replace(entries[name], stepped=step) for name, step in steps.items()}}

    def _write(self, decisions: Sequence[Start | Yield | Stop], number: str) -> bool:
        try:
            with self.ledger.write() as session:
                if not self.ledger.database.alone(session, PASS):
                    return False
                counted = (
                    update(Meta).where(Meta.key == "passes", Meta.value == number).values(value=str(int(number) + 1))
                )
                if session.execute(counted).rowcount != 1:  # type: ignore[attr-defined]  # the result of an UPDATE
                    return False
                wanted = select(Job).options(*SHORT).where(Job.id.in_([decision.job for decision in decisions]))
                jobs = {job.id: job for job in session.scalars(wanted)}
                for decision in decisions:
                    if decision.job not in jobs:
                        raise ConflictError(f"job {decision.job} is gone")
                    job = jobs[decision.job]
                    match decision:
                        case Start(workers=workers, reason=reason):
                            self.ledger.begin(session, job, workers, "scheduler", reason)
                        case Yield(reason=reason):
                            self.ledger.move(session, job, State.YIELDING, "scheduler", reason)
                        case Stop(reason=reason):
                            self.ledger.move(session, job, State.STOPPING, "scheduler", reason)
        except ConflictError:  # a job was stopped or has ended since it was read: the next pass sees that
            return False
        for start in (jobs[decision.job] for decision in decisions if isinstance(decision, Start)):
            self.metrics.waited.observe(max(0.0, self.ledger.now() - (start.waiting_since or start.submitted)))
        return True
