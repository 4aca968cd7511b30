"""A scheduler's pass over the ledger. It reads without a lock, decides, and writes only if no other pass came between:
a counter is compared and set within the transaction, so of two schedulers one begins again with what the other did."""

import time
from collections.abc import Callable, Sequence

from sqlalchemy import insert, select, update

from services.jobs.ledger.access import Access
from services.jobs.ledger.ledger import PASS, ConflictError, Ledger
from services.jobs.ledger.tables import Job, Meta
from services.jobs.scheduling.decide import decide
from services.jobs.scheduling.entries import Capacity, Entry, Outcome, Quota, Start, Stop, Yield
from services.jobs.service.entries import entries, quotas
from services.jobs.states import ACTIVE, State

LIVE = sorted({State.WAITING, *ACTIVE})
AT_ONCE = 500  # rows of one question


class Passes:
    """Passes of one service; what has not changed since the last is not read again."""

    def __init__(self, ledger: Ledger, access: Access) -> None:
        self.ledger, self.access = ledger, access
        self.seconds = 0.0  # that the last pass took
        self.took: Callable[[float], None] = lambda _: None  # told the seconds of every pass
        self._known: dict[int, Job] = {}
        with ledger.database.write() as session:
            if session.get(Meta, "passes") is None:
                session.execute(insert(Meta).values(key="passes", value="0"))

    def look(self) -> tuple[list[Entry], dict[str, Quota], dict[str, Job], str]:
        """Entries and quotas for the scheduler, the jobs by id, and the number of the last pass."""
        with self.ledger.database.read() as session:
            number = session.scalars(select(Meta.value).where(Meta.key == "passes")).one()
            rows = session.execute(select(Job.seq, Job.version).where(Job.state.in_(LIVE)))
            versions = {int(seq): int(version) for seq, version in rows}
            known = {seq: job.version for seq, job in self._known.items()}
            new = [seq for seq, version in versions.items() if known.get(seq) != version]
            self._known = {seq: job for seq, job in self._known.items() if seq in versions}
            for start in range(0, len(new), AT_ONCE):
                query = select(Job).where(Job.seq.in_(new[start : start + AT_ONCE]))
                self._known |= {job.seq: job for job in session.scalars(query)}
            others = {other for job in self._known.values() for other in job.after}
            states: dict[str, str] = {}
            if others:
                found = session.execute(select(Job.id, Job.state).where(Job.id.in_(sorted(others))))
                states = {str(name): str(state) for name, state in found}
        jobs = list(self._known.values())
        return entries(jobs, states), quotas(self.access.quotas()), {job.id: job for job in jobs}, number

    def run(self, capacity: Capacity) -> Outcome | None:
        """One pass, written down; None where another scheduler was quicker."""
        began = time.perf_counter()
        found, bounds, jobs, number = self.look()
        outcome = decide(found, bounds, capacity, self.ledger.now())
        self.seconds = time.perf_counter() - began
        self.took(self.seconds)
        if outcome.decisions and not self._write(outcome.decisions, jobs, number):
            return None
        return outcome

    def _write(self, decisions: Sequence[Start | Yield | Stop], jobs: dict[str, Job], number: str) -> bool:
        try:
            with self.ledger.database.write() as session:
                if not self.ledger.database.alone(session, PASS):
                    return False
                counted = (
                    update(Meta).where(Meta.key == "passes", Meta.value == number).values(value=str(int(number) + 1))
                )
                if session.execute(counted).rowcount != 1:  # type: ignore[attr-defined]  # the result of an UPDATE
                    return False
                for decision in decisions:
                    job = jobs[decision.job]
                    match decision:
                        case Start(workers=workers, reason=reason):
                            self.ledger.begin(session, job, workers, "scheduler", reason)
                        case Yield(reason=reason):
                            self.ledger.move(session, job, State.YIELDING, "scheduler", reason)
                        case Stop(reason=reason):
                            self.ledger.move(session, job, State.STOPPING, "scheduler", reason)
        except ConflictError:  # a job was stopped or has ended since it was read: the next pass sees it
            return False
        self.ledger.changed()
        return True
