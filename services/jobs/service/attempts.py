"""Attempts from start to end: determines the state of each by the surest source, and acts on it."""

import contextlib
import json
import logging
import time
from dataclasses import replace
from pathlib import Path

from sqlalchemy import update

from dragoman.model.errors import ServiceError, UserError
from dragoman.model.usage.recorder import Order
from dragoman.services.jobs.executors.base import Executor, Observation
from dragoman.services.jobs.executors.base import Start as Handed
from dragoman.services.jobs.ledger.ledger import ConflictError, Ledger
from dragoman.services.jobs.ledger.tables import Attempt, Job
from dragoman.services.jobs.records import Request, attempt_of
from dragoman.services.jobs.service.accounts import Accounts
from dragoman.services.jobs.service.intake import Intake
from dragoman.services.jobs.service.verdict import Verdict, judge_exit, judge_vanishing
from dragoman.services.jobs.settings import ServiceConfig
from dragoman.services.jobs.states import State
from dragoman.services.telemetry.traceparent import TraceParent, parse

START_PATIENCE = 600.0  # seconds that the executor has to start an attempt
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

    def settle(self, job: Job, seen: Observation | None, reachable: bool) -> None:
        """Settles one attempt by the surest source: its record, then its lock, then the executor's answer."""
        attempt = attempt_of(self.home, job.id, job.attempt)
        held = attempt.held()
        notes: list[str] = []
        record = attempt.record(notes)  # after the lock: the record is written before the lock is freed
        if "code" in record:
            self._end(
                job, judge_exit(job, int(record["code"]), self._same_cluster(job), self.config.losses), record["code"]
            )
        elif held:
            self._alive(job)
        elif held is False:
            why = " and ".join(["its processes are gone without a word", *(f"its {note}" for note in notes)])
            self._end(job, judge_vanishing(job, why, self.config.losses))
        elif seen is not None:
            self._by_executor(job, seen)

    def _by_executor(self, job: Job, seen: Observation) -> None:
        """Settles an attempt that cannot be seen from here: it has not begun, or its storage is not shared."""
        late = self.ledger.now() - (job.started or 0) > START_PATIENCE and not self.executor.queues
        if seen.state == "pending":
            self.pending[f"{job.id}-a{job.attempt}"] = seen.message
        if seen.state == "ended" and seen.code is not None:
            self._end(job, judge_exit(job, seen.code, self._same_cluster(job), self.config.losses), seen.code)
        elif seen.state == "ended" or (seen.state == "absent" and job.state != State.STARTING):
            why = seen.message.splitlines()[0][:200] if seen.message else "the cluster knows nothing of it"
            if job.state in (State.YIELDING, State.STOPPING) or seen.state == "ended" or late:
                self._end(job, judge_vanishing(job, why, self.config.losses))
        elif seen.state == "absent":
            self.hand_over(job)
        elif seen.state == "running":
            self._alive(job)
        elif late:
            self.executor.kill(describe_attempt(job))
            self._end(job, judge_vanishing(job, f"it was not started in {START_PATIENCE:g} s", self.config.losses))
        if seen.state in ("pending", "running") and job.state in (State.YIELDING, State.STOPPING):
            self._ask(job)

    def _alive(self, job: Job) -> None:
        self.pending.pop(f"{job.id}-a{job.attempt}", None)
        if job.state == State.STARTING:
            self.ledger.mark_started(job)
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
        again: others may have made some, been given the name, or revoked the job's token, since the job was planned."""
        plan, admin = job.plan or {}, self.intake.rights.is_admin(job)
        try:
            if job.project:
                self.intake.projects.check_member(job.project, job.owner, admin)
            granted = self.intake.places.check(job.owner, plan.get("places", ()), job.account, admin)
            owner = self.intake.ownership.claim(plan, job.owner, admin, job.account)
        except UserError as problem:
            with contextlib.suppress(ConflictError):  # its owner was faster: the next look sees it
                self._end(job, Verdict(State.FAILED, "failed", "mistake", str(problem)))
            return
        incarnation = self.executor.incarnation()
        if self._incarnation(job) != incarnation:
            with self.ledger.database.write() as session:
                where = (Attempt.job == job.id, Attempt.number == job.attempt)
                session.execute(update(Attempt).where(*where).values(incarnation=incarnation))
        planner = self.intake.planner
        grant = json.dumps({"roots": planner.roots, "secrets": planner.secrets, **granted})
        path = str(attempt_of(self.home, job.id, job.attempt).usage.absolute())
        usage = str(Order(path, bool(job.gpus), self.config.idle.share))
        self.executor.submit(replace(describe_attempt(job), model_owner=owner, grant=grant, usage=usage))

    def _incarnation(self, job: Job) -> str | None:
        """Returns the life of the cluster that the running attempt belongs to."""
        return next((one.incarnation for one in self.ledger.attempts(job.id) if one.number == job.attempt), None)

    def _same_cluster(self, job: Job) -> bool:
        """Returns True if the attempt's cluster still lives; called only where that matters."""
        before = self._incarnation(job)
        try:
            return before is None or self.executor.incarnation() == before
        except ServiceError:
            return False

    def _end(self, job: Job, verdict: Verdict, code: int | None = None) -> None:
        run = self.accounts.close(job, verdict, code)
        self._asked.pop(f"{job.id}-a{job.attempt}", None)
        self.pending.pop(f"{job.id}-a{job.attempt}", None)
        if self.executor.queues:  # otherwise it would make another attempt of its own
            self.executor.kill(describe_attempt(job))
        if verdict.state == State.SUCCEEDED:
            self.accounts.measure(self.ledger.job(job.id), run)


def describe_attempt(job: Job) -> Handed:
    """Returns the job's running attempt in the executor's form."""
    plan = job.plan or {}
    words = list(plan.get("words", job.words))
    spreads = bool(plan.get("spreads"))
    if plan.get("elastic"):
        words.append(f"cluster.workers={job.workers}")
    size = (job.workers, job.cpus, job.gpus, spreads)
    place = place_of(job.trace, job.id, job.attempt)
    trace = "" if place is None else str(place)
    return Handed(job.id, job.attempt, job.verb, tuple(words), job.owner, job.priority, *size, trace=trace)


def place_of(trace: str | None, job: str, attempt: int) -> TraceParent | None:
    """Returns the place of an attempt in the trace of its job; None if its submitter named no trace."""
    parent = parse(trace)
    return None if parent is None else parent.child(f"{job}-a{attempt}")
