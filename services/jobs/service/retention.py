"""Deletes jobs that ended long ago: their logs, their records, and the folders of their trainings.

`service.keep` says which. A job stays while an unfinished one comes after it or uses its run, while a schedule names it
as its last, while its run has records that MLflow has not, and as long as its run is a registered version. Shards and
MLflow's runs stay; so does the audit trail. Files go first, the row last, so a killed service goes on where it was.
Rows of the audit have an age of their own.
"""

import logging
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sqlalchemy import and_, delete, func, or_, select

from dragoman.model.runs import lock, paths, spool
from dragoman.model.untrusted import read_object
from dragoman.services.jobs.ledger.audit import Audit
from dragoman.services.jobs.ledger.ledger import ConflictError, Ledger
from dragoman.services.jobs.ledger.tables import Job, Place, Schedule
from dragoman.services.jobs.service.metrics import Metrics
from dragoman.services.jobs.settings import KeepConfig
from dragoman.services.jobs.states import ENDED, UNENDED, State
from dragoman.services.repeating import Repeating

DAY = 86_400.0  # seconds
TICK = 300.0  # seconds between two looks
STEP = 20  # jobs of one look, and
PAUSE = 0.2  # seconds after each, so that requests and jobs have the disk
PAGE = 500  # jobs of one query
STRAY = 7 * DAY  # age of a folder without a job
AGES = {State.SUCCEEDED: "succeeded", State.FAILED: "failed", State.LOST: "failed", State.STOPPED: "stopped"}
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DueJob:
    """A job that is to be deleted, the folders that go with it, and why; or why it stays."""

    job: Job
    folders: Sequence[Path]
    reason: str
    stays: str = ""

    @property
    def bytes(self) -> int:
        return sum(bytes_in(folder) for folder in self.folders)


class Retention:
    """The retention of one service's ledger and home."""

    def __init__(self, ledger: Ledger, config: KeepConfig, home: Path, metrics: Metrics | None = None) -> None:
        self.ledger, self.config, self.home, self.metrics = ledger, config, home, metrics
        self.repeating = Repeating("retention", TICK, self.delete, first=PAUSE)

    def due(self, config: KeepConfig | None = None) -> Iterator[DueJob]:
        """Yields the jobs to which the rules apply, oldest first; those with `stays` are not deleted."""
        rules = config or self.config
        waited_for, used = self._needed()
        last = 0
        while expired := self._expired(rules, last):
            for job, removable in expired:
                yield self._judge(job, removable, waited_for, used)
            last = expired[-1][0].seq

    def look(self) -> int:
        """Deletes up to `STEP` jobs and the folders of jobs that were removed; returns the number of jobs."""
        done, freed = 0, 0
        for due in self.due():
            if done == STEP or self.repeating.ending.is_set():
                break
            if due.stays:
                continue
            freed += due.bytes
            self._delete(due)
            done += 1
            self.repeating.ending.wait(PAUSE)
        for folder in self._strays():
            freed += bytes_in(folder)
            shutil.rmtree(folder)
        if done or freed:
            logger.info("service.keep: deleted %d ended jobs; %.1f MB are free again", done, freed / 1e6)
            if self.metrics is not None:
                self.metrics.deleted_jobs.inc(done)
                self.metrics.deleted_bytes.inc(freed)
        return done

    def forget(self) -> None:
        """Deletes the rows of the audit that are older than `service.keep.audit`."""
        until = self.ledger.now() - self.config.audit * DAY
        while self.config.audit and Audit(self.ledger).forget(until, PAGE) == PAGE:
            if self.repeating.ending.wait(PAUSE):
                return

    def delete(self) -> None:
        """Deletes all that is due."""
        self.forget()
        while self.config.active() and self.look() == STEP and not self.repeating.ending.is_set():
            pass

    def _expired(self, rules: KeepConfig, after: int) -> list[tuple[Job, bool]]:
        """Returns the next jobs to which a rule applies, and True for those whose run's folder goes along: it is
        theirs, and no other job has the run."""
        now = self.ledger.now()
        rank = func.row_number().over(partition_by=Job.owner, order_by=Job.seq.desc())
        ranked = select(Job.seq, rank.label("rank")).where(Job.state.in_(sorted(ENDED))).subquery()
        ages = [
            and_(Job.state == state, Job.changed < now - getattr(rules, key) * DAY, ranked.c.rank > rules.newest)
            for state, key in AGES.items()
            if getattr(rules, key)
        ]
        if rules.most:
            ages.append(ranked.c.rank > max(rules.most, rules.newest))
        if not ages:
            return []
        query = select(Job).join(ranked, ranked.c.seq == Job.seq).where(or_(*ages), Job.seq > after)
        due = []
        with self.ledger.database.read() as session:
            for job in session.scalars(query.order_by(Job.seq).limit(PAGE)):
                owner = session.scalar(select(Place.owner).where(Place.path == (job.plan or {}).get("run_dir", "")))
                others = select(Job.seq).where(Job.run == job.run, Job.run != "", Job.seq != job.seq).limit(1)
                ours = owner in (None, job.owner, job.account)
                due.append((job, rules.runs and ours and session.scalar(others) is None))
        return due

    def _needed(self) -> tuple[set[str], list[PurePosixPath]]:
        """Returns the jobs that unfinished ones and schedules name, and the places that unfinished ones use."""
        with self.ledger.database.read() as session:
            names = {str(name) for name in session.scalars(select(Schedule.job)) if name}
            used: list[PurePosixPath] = []
            for after, plan in session.execute(select(Job.after, Job.plan).where(Job.state.in_(sorted(UNENDED)))):
                names |= set(after)
                used += [PurePosixPath(place["path"]) for place in (plan or {}).get("places", ())]
        return names, used

    def _judge(self, job: Job, removable: bool, waited_for: set[str], used: Sequence[PurePosixPath]) -> DueJob:
        days = (self.ledger.now() - job.changed) / DAY
        reason = f"{job.state} {days:.0f} days ago"
        folders = [self.home / "jobs" / job.id]
        run = Path((job.plan or {}).get("run_dir", "")) if job.verb == "train" and job.plan else None
        stays = ""
        if job.id in waited_for:
            stays = "an unfinished job or a schedule names it"
        elif run is not None and run.is_dir():
            if read_object(run / paths.RELEASE).get("version") is not None:
                stays = "its model is registered"
            elif any(path.is_relative_to(run) for path in used):
                stays = "an unfinished job uses its run"
            elif lock.is_held(run) or spool.Spool(run).writer_alive():
                stays = "a process works on its run"
            elif spool.pending(run):
                stays = "MLflow has not all of its run's records"
            elif removable and self._ours(run):
                folders.append(run)
        return DueJob(job, [folder for folder in folders if folder.is_dir()], reason, stays)

    def _ours(self, run: Path) -> bool:
        """Returns True if a folder is a run in this home, and no link."""
        home = self.home.resolve()
        return run.resolve() == run and run.is_relative_to(home) and run != home and paths.is_run(run)

    def _delete(self, due: DueJob) -> None:
        for folder in due.folders:
            shutil.rmtree(folder)
        with self.ledger.database.write() as session:
            for folder in due.folders:
                session.execute(delete(Place).where(Place.path == str(folder)))
        try:
            self.ledger.remove(due.job, "service", f"service.keep: {due.reason}")
        except ConflictError:  # it was queued again in the meantime: it starts anew
            logger.info("job %s has changed in the meantime", due.job.id)

    def _strays(self) -> list[Path]:
        """Returns old folders of jobs that were removed by hand."""
        pattern = re.compile(re.escape(self.ledger.database.prefix) + r"-\d+")
        limit = time.time() - STRAY
        old = {
            path.name: path
            for path in (self.home / "jobs").glob(f"{self.ledger.database.prefix}-*")
            if pattern.fullmatch(path.name) and not path.is_symlink() and path.stat().st_mtime < limit
        }
        states = self.ledger.states(sorted(old))
        return [path for name, path in sorted(old.items()) if name not in states][:STEP]


def summary(expired: Sequence[DueJob]) -> dict[str, int]:
    """Returns reason -> number of the jobs that stay in spite of the rules."""
    return dict(Counter(due.stays for due in expired if due.stays))


def bytes_in(folder: Path) -> int:
    """Returns the size of all files in a folder; 0 if there is none."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
