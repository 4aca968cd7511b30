"""A scheduler's pass over the ledger: reads without a lock, decides, and writes only if no other pass came between.

A counter is compared and set within the transaction, so one of two schedulers starts again with the other's results."""

import gc
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from dragoman.services.jobs.ledger.access import Access
from dragoman.services.jobs.ledger.ledger import PASS, SHORT, ConflictError, Ledger, rows_of
from dragoman.services.jobs.ledger.statements import NEWEST
from dragoman.services.jobs.ledger.tables import Attempt, Change, Job, Meta
from dragoman.services.jobs.scheduling.decide import NO_RULES, decide_queue
from dragoman.services.jobs.scheduling.entries import UNKNOWN, Capacity, Entry, Outcome, Start, Stop, Yield
from dragoman.services.jobs.scheduling.queue import Queue
from dragoman.services.jobs.scheduling.room import Needs
from dragoman.services.jobs.scheduling.rules import Rules, Usage
from dragoman.services.jobs.service.progress import Footprint
from dragoman.services.jobs.settings import ServiceConfig
from dragoman.services.jobs.states import ACTIVE, Quota, State

YIELDING_VERBS = frozenset({"train"})  # commands that resume where they were


def entry(job: Job, states: Mapping[str, str]) -> Entry:
    """Returns the scheduler's view of a job. `states`: of the jobs that it comes after."""
    left = None if job.max_seconds is None else max(0.0, job.max_seconds - job.spent)
    return Entry(
        job.id,
        job.owner,
        State(job.state),
        job.priority,
        job.queued,
        Needs(tuple(job.choices) or (1,), job.cpus, job.gpus),
        job.run,
        job.seconds_low or 0.0,
        job.seconds_high or left or UNKNOWN,
        job.workers,
        job.started or 0.0,
        None if job.state == State.STARTING else left,  # it may wait in another queue, and has used no time
        next((other for other in job.after if states.get(other) != State.SUCCEEDED), ""),
        job.verb in YIELDING_VERBS,
        job.waiting_since or job.submitted,
    )


def rules(config: ServiceConfig) -> Rules:
    """Returns the scheduler's rules from the section `service`, without any usage."""
    share = config.fair_share
    usage = Usage(share.half_life) if share.half_life else None
    return Rules(usage, dict(share.weights), config.patience or None, config.preempt_after)


LIVE = sorted({State.WAITING, *ACTIVE})
WHOLE = 30.0  # seconds between two comparisons of the whole queue with the ledger
# PostgreSQL may commit a change after one with a higher number, so this many numbers are read again each time.
LOOK_BACK = 200
# This many new waiting jobs are hidden from the garbage collector. With 10,000 jobs its runs delayed every request by
# 180 ms and found nothing, because a job is released as soon as it is forgotten.
FROZEN = 1000
HALF_LIVES = 10  # after which usage is negligible
LATE = 60.0  # seconds that the end of an attempt may be committed after it


class Scheduler:
    """One service's scheduler; unchanged jobs are neither read nor sorted again."""

    def __init__(self, ledger: Ledger, access: Access, rules: Rules = NO_RULES) -> None:
        """`rules` without usage, which comes from the ledger's attempts."""
        self.ledger, self.access, self.rules = ledger, access, rules.copy()
        self.seconds = 0.0  # duration of the last pass
        self.took: Callable[[float], None] = lambda _: None  # called with the seconds of every pass
        # Returns what some of the running jobs would lose; called if a job of higher priority waits.
        self.footprints: Callable[[Sequence[str]], Mapping[str, Footprint]] = lambda _: {}
        self._lock = threading.Lock()  # the loop updates the queue, requests read it
        self._queue = Queue()
        self._known: dict[int, Job] = {}  # by `seq`
        self._seqs: dict[str, int] = {}
        self._after: dict[str, Job] = {}  # jobs that come after jobs which have not succeeded
        self._frozen = 0  # the most known jobs when they were hidden from the garbage collector
        self._seen, self._compared = 0, float("-inf")  # the last change, and the last full comparison (monotonic)
        self._charged: dict[tuple[str, int], float] = {}  # counted ended attempts, and their ends
        self._counted: float | None = None  # the end of the last counted one
        with ledger.database.write() as session:
            if session.get(Meta, "passes") is None:
                session.execute(insert(Meta).values(key="passes", value="0"))

    def snapshot(self) -> tuple[Queue, dict[str, Quota], Rules]:
        """Returns the queue now, its quotas, and the rules with the owners' usage."""
        with self._lock:
            self._refresh()
            return self._queue.copy(), self.access.quotas(), self.rules.copy()

    def run(self, capacity: Capacity) -> Outcome | None:
        """Runs one pass and writes it; returns None if another scheduler was quicker."""
        began = time.perf_counter()
        with self._lock:
            number = self._refresh()
            bounds, now = self.access.quotas(), self.ledger.now()
            outcome = decide_queue(self._queue, bounds, capacity, now, self.rules)
            jobs = [self._known[self._seqs[decision.job]] for decision in outcome.decisions]
        self.seconds = time.perf_counter() - began
        self.took(self.seconds)
        if len(self._known) >= self._frozen + FROZEN:
            self._frozen = len(self._known)
            gc.collect()
            gc.freeze()
        if outcome.decisions and not self._write(outcome.decisions, jobs, number):
            return None
        return outcome

    def _refresh(self) -> str:
        """Updates the queue from the ledger; returns the number of the last pass."""
        with self.ledger.database.read() as session:
            number = session.scalars(select(Meta.value).where(Meta.key == "passes")).one()
            newest = session.scalar(NEWEST) or 0
            if time.monotonic() - self._compared > WHOLE:
                changed = self._compare(session)
                self._compared = time.monotonic()
            else:
                changed = self._changed(session, newest)
            if newest != self._seen or self._counted is None:
                self._charge(session)
            self._seen = newest
            self._enter([job for (job,) in rows_of(session, select(Job).options(*SHORT), Job.seq, changed)])
        if self._after:
            self._enter(list(self._after.values()))
        self._weigh()
        return number

    def _charge(self, session: Session) -> None:
        """Counts what owners' attempts held that have ended since the last check."""
        usage = self.rules.usage
        if usage is None:
            return
        now = self.ledger.now()
        since = now - HALF_LIVES * usage.half_life if self._counted is None else self._counted - LATE
        query = (
            select(Attempt.job, Attempt.number, Attempt.workers, Attempt.decided, Attempt.ended)
            .add_columns(Job.owner, Job.cpus, Job.gpus)
            .join(Job, Job.id == Attempt.job)
            .where(Attempt.ended > since)
        )
        for job, number, workers, decided, ended, owner, cpus, gpus in session.execute(query):
            if (job, number) not in self._charged:
                usage.charge(owner, workers * cpus, workers * gpus, decided, ended)
                self._charged[(job, number)] = ended
                self._counted = max(self._counted or 0.0, ended)
        self._counted = now if self._counted is None else self._counted
        for name in [name for name, ended in self._charged.items() if ended <= self._counted - LATE]:
            del self._charged[name]

    def _weigh(self) -> None:
        """Reads what jobs would lose that could be asked to yield."""
        highest = self._queue.highest()
        if highest is None:
            return
        active = self._queue.active.values()
        lower = [
            entry for entry in active if entry.yields and entry.state == State.RUNNING and entry.priority < highest
        ]
        footprints = self.footprints([job.id for job in lower]) if lower else {}
        for job in lower:
            seen = footprints.get(job.id)
            if seen is not None:
                self._queue.put(replace(job, stepped=seen.stepped, kept=seen.kept, preempted=seen.preempted))

    def _compare(self, session: Session) -> list[int]:
        """Returns the live jobs that differ from what is known; drops jobs that are no longer live."""
        rows = session.execute(select(Job.seq, Job.version).where(Job.state.in_(LIVE)))
        versions = {int(seq): int(version) for seq, version in rows}
        for seq in self._known.keys() - versions.keys():
            self._leave(seq)
        return [seq for seq, version in versions.items() if self._version(seq) != version]

    def _changed(self, session: Session, newest: int) -> list[int]:
        """Returns the same for the jobs that the audit trail names since the last check: one row each."""
        since = self._seen if self.ledger.database.is_sqlite else self._seen - LOOK_BACK
        if newest == since:
            return []
        named = select(Change.job).where(Change.id > since, Change.job.is_not(None)).distinct()
        names = [str(name) for name in session.scalars(named)]
        query = select(Job.id, Job.seq, Job.version).where(Job.state.in_(LIVE))
        live = {str(name): (int(seq), int(version)) for name, seq, version in rows_of(session, query, Job.id, names)}
        for name in names:
            if name in self._seqs and name not in live:
                self._leave(self._seqs[name])
        return [seq for seq, version in live.values() if self._version(seq) != version]

    def _version(self, seq: int) -> int:
        cached = self._known.get(seq)
        return cached.version if cached is not None else 0

    def _leave(self, seq: int) -> None:
        gone = self._known.pop(seq)
        self._queue.remove(gone.id)
        self._after.pop(gone.id, None)
        del self._seqs[gone.id]

    def _enter(self, jobs: Sequence[Job]) -> None:
        states = self.ledger.states(sorted({other for job in jobs for other in job.after}))
        for job in jobs:
            self._known[job.seq], self._seqs[job.id] = job, job.seq
            self._after.pop(job.id, None)
            entered = entry(job, states)
            if entered.blocked:
                self._after[job.id] = job
            self._queue.put(entered)

    def _write(self, decisions: Sequence[Start | Yield | Stop], jobs: Sequence[Job], number: str) -> bool:
        try:
            with self.ledger.write() as session:
                if not self.ledger.database.alone(session, PASS):
                    return False
                counted = (
                    update(Meta).where(Meta.key == "passes", Meta.value == number).values(value=str(int(number) + 1))
                )
                if session.execute(counted).rowcount != 1:  # type: ignore[attr-defined]  # the result of an UPDATE
                    return False
                for decision, job in zip(decisions, jobs, strict=True):
                    match decision:
                        case Start(workers=workers, reason=reason):
                            self.ledger.begin(session, job, workers, "scheduler", reason)
                        case Yield(reason=reason):
                            self.ledger.move(session, job, State.YIELDING, "scheduler", reason)
                        case Stop(reason=reason):
                            self.ledger.move(session, job, State.STOPPING, "scheduler", reason)
        except ConflictError:  # a job was stopped or has ended since it was read: the next pass sees that
            return False
        return True
