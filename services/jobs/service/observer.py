"""Turns events into metrics and traces: it reads the audit trail, so the writers need not know of it.

Each service counts events since its own start. Every ended attempt of a job that was submitted in a trace becomes a
span; the attempt's processes are its children.
"""

import contextlib
import threading
from collections import OrderedDict

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from dragoman.services.jobs.ledger.ledger import Ledger, UnknownJobError
from dragoman.services.jobs.ledger.tables import Attempt, Change
from dragoman.services.jobs.service.attempts import place_of
from dragoman.services.jobs.service.metrics import Metrics
from dragoman.services.jobs.service.repeating import Repeating
from dragoman.services.jobs.states import ACTIVE, State
from dragoman.services.telemetry.spans import tell
from dragoman.services.telemetry.traceparent import parse

TICK = 2.0  # seconds between two looks; /metrics looks too
OVERLAP = 200  # rows read again before the newest: PostgreSQL may commit a lower number later
AT_ONCE = 1000  # rows per query
GOOD = frozenset({"succeeded", "yielded", "stopped"})


class Observer:
    """The observer of one service's ledger."""

    def __init__(self, ledger: Ledger, metrics: Metrics) -> None:
        self.ledger, self.metrics = ledger, metrics
        self._newest = self._first = ledger.newest_change()
        self._seen: OrderedDict[int, None] = OrderedDict()
        self._lock = threading.Lock()
        self.repeating = Repeating("observer", TICK, self.look)

    def stop(self) -> None:
        """Ends the thread, and looks a last time."""
        self.repeating.stop()
        with contextlib.suppress(SQLAlchemyError):
            self.look()

    def look(self) -> None:
        """Counts new events."""
        with self._lock:
            while found := self._unseen():
                for change in found:
                    self._tell(change)

    def _unseen(self) -> list[Change]:
        after = max(self._first, self._newest - OVERLAP)
        found = self.ledger.changes(after, limit=AT_ONCE + OVERLAP)
        new = [change for change in found if change.id not in self._seen]
        for change in new:
            self._seen[change.id] = None
            self._newest = max(self._newest, change.id)
        while len(self._seen) > AT_ONCE + 2 * OVERLAP:
            self._seen.popitem(last=False)
        return new

    def _tell(self, change: Change) -> None:
        if change.action != "state" or change.job is None or change.attempt is None:
            return
        if change.after == State.STARTING:
            self._waited(change.job, change)
        elif change.after == State.RUNNING and change.attempt > 1:
            self._recovered(change.job, change.attempt, change.at)
        elif change.before in ACTIVE and change.after not in ACTIVE:
            self._ended(change.job, change.attempt)

    def _waited(self, job: str, change: Change) -> None:
        """Counts the time from the last queueing of a job until its attempt."""
        query = (
            select(Change.at)
            .where(Change.job == job, Change.after == State.WAITING, Change.id < change.id)
            .order_by(Change.id.desc())
        )
        with self.ledger.database.read() as session:
            since = session.scalars(query.limit(1)).first()
        if since is not None:
            self.metrics.waited.observe(max(0.0, change.at - since))

    def _recovered(self, job: str, number: int, now: float) -> None:
        """Counts the time from the end of the previous attempt, whatever its cause, until this one runs."""
        before = self._attempt(job, number - 1)
        if before is not None and before.ended is not None:
            self.metrics.recovery.labels(before.cause or "unknown").observe(max(0.0, now - before.ended))

    def _ended(self, job: str, number: int) -> None:
        attempt = self._attempt(job, number)
        if attempt is None or attempt.ended is None:  # removed with its job in the meantime
            self.metrics.attempts.labels("removed").inc()
            return
        cause = attempt.cause or "unknown"
        self.metrics.attempts.labels(cause).inc()
        self.metrics.lost.labels(cause).inc(attempt.lost_tokens)
        self._trace(attempt)

    def _trace(self, attempt: Attempt) -> None:
        tracer = self.metrics.telemetry.tracer
        if tracer is None:
            return
        try:
            job = self.ledger.job(attempt.job)
        except UnknownJobError:
            return
        parent, place = parse(job.trace), place_of(job.trace, job.id, attempt.number)
        if parent is None or place is None:
            return
        facts: dict[str, str | int | float] = {
            **{"job": job.id, "attempt": attempt.number, "verb": job.verb, "run": job.run, "workers": attempt.workers},
            **{"outcome": attempt.outcome or "", "cause": attempt.cause or ""},
        }
        failed = attempt.outcome not in GOOD
        began = attempt.started or attempt.decided
        tell(tracer, "attempt", place, parent, began, attempt.ended or began, failed, facts)

    def _attempt(self, job: str, number: int) -> Attempt | None:
        with self.ledger.database.read() as session:
            return session.get(Attempt, (job, number))
