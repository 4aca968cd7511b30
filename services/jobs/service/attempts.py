"""Attempts from start to end: determines the state of each by the surest source, and acts on it."""

import contextlib
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from dragoman.conf.endings import UNAVAILABLE
from dragoman.model.durations import duration
from dragoman.model.errors import ServiceError, UserError
from dragoman.services.jobs.executor import Executor, Observation
from dragoman.services.jobs.executor import Start as Handed
from dragoman.services.jobs.ledger.database import Attempt, Job
from dragoman.services.jobs.ledger.ledger import ConflictError, Ledger, set_attempt
from dragoman.services.jobs.options import owned_words
from dragoman.services.jobs.records import YIELDED, Request, attempt_of
from dragoman.services.jobs.service.accounts import Accounts
from dragoman.services.jobs.service.intake import Intake
from dragoman.services.jobs.service.verdict import (
    CLUSTER,
    SIGNALLED,
    TROUBLE,
    Verdict,
    judge_exit,
    judge_vanishing,
)
from dragoman.services.jobs.settings import ServiceConfig
from dragoman.services.jobs.states import State

START_TIMEOUT = 600.0  # seconds that the executor has to start an attempt
# Seconds after which a failure is judged: a command may fail because its cluster goes away, some moments before the
# cluster itself stops to answer.
SETTLING = 3.0
CERTAIN = {0, UNAVAILABLE, YIELDED, *SIGNALLED}  # exit codes that no cluster's end changes
PAUSES = (1.0, 5.0, 15.0, 60.0, 300.0)  # seconds before an attempt follows one that met trouble
logger = logging.getLogger(__name__)


class Attempts:
    """The attempts of one service."""

    def __init__(
        self, ledger: Ledger, executor: Executor, intake: Intake, config: ServiceConfig, home: Path, accounts: Accounts
    ) -> None:
        self.ledger, self.executor, self.intake, self.config, self.home = ledger, executor, intake, config, home
        self.accounts = accounts
        self.pending: dict[str, str] = {}  # attempt -> what it waits for, by the executor
        self._asked: dict[str, float] = {}  # attempt -> the time of the first request to end, monotonic
        self._failed: dict[str, float] = {}  # attempt -> the time when its failure was first seen, monotonic
        self.settling = SETTLING

    def settle(self, job: Job, seen: Observation | None) -> None:
        """Settles one attempt by the surest source: its record, then its lock, then the executor's answer."""
        attempt = attempt_of(self.home, job.id, job.attempt)
        held = attempt.held()
        notes: list[str] = []
        record = attempt.record(notes)  # after the lock: the record is written before the lock is freed
        if "code" in record:
            if record["code"] in CERTAIN or self._settled(job):
                self._exited(job, int(record["code"]))
        elif held:
            self._alive(job)
        elif held is False and self._settled(job):
            why = " and ".join(["its processes are gone without a word", *(f"its {note}" for note in notes)])
            self._end(job, judge_vanishing(job, why, self.config.losses, self._same_cluster(job)))
        elif held is None and seen is not None:
            self._by_executor(job, seen)

    def _exited(self, job: Job, code: int) -> None:
        self._end(job, judge_exit(job, code, code == 0 or self._same_cluster(job)), code)

    def _settled(self, job: Job) -> bool:
        """Returns True if a failed attempt can be judged; a stop's reason is known, a cluster's end shows late."""
        since = self._failed.setdefault(f"{job.id}-a{job.attempt}", time.monotonic())
        return job.state == State.STOPPING or time.monotonic() - since >= self.settling

    def _by_executor(self, job: Job, seen: Observation) -> None:
        """Settles an attempt that cannot be seen from here: it has not begun, or its storage is not shared."""
        late = self.ledger.now() - (job.started or 0) > START_TIMEOUT
        if seen.state == "pending":
            self.pending[f"{job.id}-a{job.attempt}"] = seen.message
        if seen.state == "ended" and seen.code not in CERTAIN and not self._settled(job):
            return
        if seen.state == "ended" and seen.code is not None and seen.code >= 0:
            self._exited(job, seen.code)
        elif seen.state == "ended" or (seen.state == "absent" and job.state != State.STARTING):
            why = seen.message.splitlines()[0][:200] if seen.message else "the cluster knows nothing of it"
            gone = seen.state == "ended" or late or self._on_another_cluster(job)  # an attempt ends with its cluster
            if job.state in (State.YIELDING, State.STOPPING) or gone:
                began = job.state != State.STARTING  # otherwise the cluster could not start it
                self._end(job, judge_vanishing(job, why, self.config.losses, began and self._same_cluster(job)))
        elif seen.state == "absent":
            self.hand_over(job)
        elif seen.state == "running":
            self._alive(job)
        elif late:
            self.executor.kill(describe_attempt(job))
            why = f"it was not started in {START_TIMEOUT:g} s"
            self._end(job, judge_vanishing(job, why, self.config.losses, counts=False))
        if seen.state in ("pending", "running") and job.state in (State.YIELDING, State.STOPPING):
            self._ask(job)

    def _alive(self, job: Job) -> None:
        self.pending.pop(f"{job.id}-a{job.attempt}", None)
        if job.state == State.STARTING:
            self.accounts.begin(job)
        elif job.state in (State.YIELDING, State.STOPPING):
            self._ask(job)

    def _ask(self, job: Job) -> None:
        request: Request = "stop" if job.state == State.STOPPING else "yield"
        key = f"{job.id}-a{job.attempt}"
        since = self._asked.setdefault(key, time.monotonic())
        try:
            self.executor.stop(describe_attempt(job), request)
        except OSError as problem:  # the job put something else in the request's place
            logger.debug("job %s cannot be asked: %s", job.id, problem)
        if time.monotonic() - since > self.config.stop_timeout:
            logger.warning("job %s did not end in order in %g s: it is killed", job.id, self.config.stop_timeout)
            self.executor.kill(describe_attempt(job))

    def hand_over(self, job: Job) -> None:
        """Starts an attempt; one that was started before stays as it is. The owners of files and models are checked
        again: others may have made some, been given the name, or revoked the job's token, since the job was planned.
        After trouble it waits a while, in which it keeps its place."""
        if job.attempt > 1 and (wait := self._pause(self.ledger.attempts(job.id))):
            self.pending[f"{job.id}-a{job.attempt}"] = wait
            return
        plan, admin = job.plan or {}, self.intake.rights.is_admin(job)
        try:
            ownership, places = self.intake.ownership, plan.get("places", ())
            granted = ownership.grant(job.owner, places, admin)
            owner = ownership.check_model(plan, job.owner, admin)
            ownership.mark(job.owner, places)
        except UserError as problem:
            with contextlib.suppress(ConflictError):  # its owner was faster: the next look sees it
                self._end(job, Verdict(State.FAILED, "failed", "mistake", str(problem)))
            return
        incarnation = self.executor.incarnation()
        with self.ledger.database.write(lasting=False) as session:
            set_attempt(session, job, incarnation=incarnation)
        planner = self.intake.planner
        grant = json.dumps({"roots": planner.roots, "secrets": planner.secrets, **granted})
        self.executor.submit(replace(describe_attempt(job), model_owner=owner, grant=grant))

    def _pause(self, attempts: Sequence[Attempt]) -> str:
        """Returns why the last attempt does not begin yet; empty if it may."""
        *before, _ = attempts
        times = len(list(takewhile(lambda attempt: attempt.cause in (TROUBLE, CLUSTER), reversed(before))))
        if not times:
            return ""
        left = (before[-1].ended or 0.0) + PAUSES[min(times, len(PAUSES)) - 1] - self.ledger.now()
        met = f"attempt {before[-1].number} met a full disk, or a server or cluster that did not answer: see its log"
        return f"{met}; it is tried again in {duration(left)}" if left > 0 else ""

    def _same_cluster(self, job: Job) -> bool:
        """Returns True if the cluster that the running attempt began on still lives; called only where that matters."""
        before = self.ledger.attempts(job.id)[-1].incarnation
        try:
            return before is None or self.executor.incarnation() == before
        except ServiceError:
            return False

    def _on_another_cluster(self, job: Job) -> bool:
        """Returns True if the cluster answers, and is another than the running attempt began on."""
        before = self.ledger.attempts(job.id)[-1].incarnation
        try:
            return before is not None and self.executor.incarnation() != before
        except ServiceError:
            return False

    def _end(self, job: Job, verdict: Verdict, code: int | None = None) -> None:
        run = self.accounts.close(job, verdict, code)
        for kept in (self._asked, self._failed, self.pending):
            kept.pop(f"{job.id}-a{job.attempt}", None)
        if verdict.state == State.SUCCEEDED:
            self.accounts.measure(job, run)


def describe_attempt(job: Job) -> Handed:
    """Returns the job's running attempt in the executor's form."""
    plan = job.plan or {}
    words = owned_words(plan.get("words", job.words), job.owner)
    spreads = bool(plan.get("spreads"))
    if plan.get("elastic"):
        words.append(f"cluster.workers={job.workers}")
    size = (job.workers, job.cpus, job.gpus, spreads)
    return Handed(job.id, job.attempt, job.verb, tuple(words), job.owner, job.priority, *size)
