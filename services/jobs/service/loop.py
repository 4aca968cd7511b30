"""The loop that carries out the ledger: it plans, starts and asks jobs, and notices the end of attempts.

It needs nothing in memory: each look begins with the ledger and with observations, and every action may be repeated. So
it can be killed between any two steps.
"""

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from sqlalchemy import insert, update
from sqlalchemy.exc import SQLAlchemyError

from model.errors import ServiceError, UserError
from services.jobs.executors.base import Executor, Observation
from services.jobs.executors.base import Start as Handed
from services.jobs.ledger.access import Access
from services.jobs.ledger.ledger import ConflictError, Ledger, UnknownJobError
from services.jobs.ledger.tables import Attempt, Job, Measurement
from services.jobs.records import Request, attempt_of
from services.jobs.scheduling.entries import Capacity
from services.jobs.scheduling.room import Node
from services.jobs.service.entries import rules
from services.jobs.service.footprint import Footprint, footprint
from services.jobs.service.intake import Intake
from services.jobs.service.progress import Progress, progress
from services.jobs.service.scheduler import Scheduler
from services.jobs.service.verdict import PREEMPTION, SHUTDOWN, Verdict, judge_exit, judge_vanishing
from services.jobs.settings import ServiceConfig
from services.jobs.states import ACTIVE, ENDED, State
from services.telemetry.traceparent import TraceParent, parse

START_PATIENCE = 600.0  # seconds that the executor has to start an attempt
CAPACITY_KEPT = 5.0  # seconds
UNBOUNDED = Capacity((Node("queue", 1e12, 1e12),), 1_000_000)  # if another system queues, every job passes here
LEISURE = 4.0  # pause between looks, in durations of the last one
logger = logging.getLogger(__name__)


class Loop:
    """One service's loop, in two threads: planning may take seconds, and nothing else waits for it."""

    def __init__(
        self, ledger: Ledger, access: Access, executor: Executor, intake: Intake, config: ServiceConfig, home: Path
    ) -> None:
        self.ledger, self.executor, self.intake, self.config, self.home = ledger, executor, intake, config, home
        self.scheduler = Scheduler(ledger, access, rules(config))
        self.scheduler.footprints = self._footprints
        self.capacity: Capacity | None = None
        self.trouble: str | None = None  # the last look's failure
        self.admits = True  # False: nothing new is started
        self.pending: dict[str, str] = {}  # attempt -> what it waits for, by the executor
        self.judged: Callable[[float, bool], None] = lambda _ratio, _inside: None  # called per ended forecast
        self._faults: dict[str, str] = {}  # job -> the failure of the last look at it
        self._looked = float("-inf")
        self._asked: dict[str, float] = {}  # attempt -> the time of the first request to end, monotonic
        self._wake, self._wake_intake, self._ending = threading.Event(), threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(self._wake, self.look), name="loop", daemon=True),
            threading.Thread(target=self._repeat, args=(self._wake_intake, self._take), name="intake", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Looks now rather than at the next tick, because something has changed."""
        self._wake.set()
        self._wake_intake.set()

    def resources(self) -> dict[str, float] | None:
        """Returns what jobs may use, by resource; None if the cluster did not answer the last look."""
        if self.capacity is None or self.trouble:
            return None
        nodes = self.capacity.nodes
        return {"cpu": sum(node.cpus for node in nodes), "gpu": sum(node.gpus for node in nodes)}

    def quiesce(self, timeout: float) -> bool:
        """Asks all jobs to yield and starts nothing new; returns True if all ended in order in time."""
        self.admits = False
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
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
            time.sleep(0.2)
        return False

    def stop(self) -> None:
        """Ends the threads; jobs continue."""
        self._ending.set()
        self.wake()
        for thread in self._threads:
            thread.join(30)

    def _repeat(self, wake: threading.Event, task: Callable[[], None]) -> None:
        while not self._ending.is_set():
            wake.clear()
            began = time.monotonic()
            try:
                task()
            except (ServiceError, SQLAlchemyError, OSError) as problem:  # the next look tries again
                self.trouble = str(problem).splitlines()[0][:300]
                logger.warning("%s", self.trouble)
                self._ending.wait(1.0)
            except Exception:  # an error of ours must not end the service
                logger.exception("a look at the jobs failed")
                self._ending.wait(1.0)
            # changes of one moment share a look, so that requests are answered while the queue is long
            self._ending.wait(min(self.config.tick, LEISURE * (time.monotonic() - began)))
            wake.wait(self.config.tick)

    def _take(self) -> None:
        while self.intake.take(self.capacity) and not self._ending.is_set():
            self._wake.set()

    def look(self) -> None:
        """Looks at everything once: ends, starts, and requests."""
        reachable = self._look_at_cluster()
        self.ledger.look()
        active = self.ledger.jobs(ACTIVE, plans=True)
        self._settle(active, reachable)
        self._end_followers()
        if self.capacity is not None and reachable and self.admits:
            self.scheduler.run(UNBOUNDED if self.executor.queues else self.capacity)
            fresh = [
                job
                for job in self.ledger.jobs([State.STARTING], ascending=True, plans=True)
                if job.version not in _versions(active, job)
            ]
            for job in fresh:
                self._guarded(job, partial(self._hand_over, job))

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
            self._guarded(job, partial(self._settle_one, job, observed, reachable))

    def _guarded(self, job: Job, task: Callable[[], None]) -> None:
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
                known = isinstance(problem, ServiceError | OSError)
                logger.warning("job %s: %s", job.id, fault, exc_info=None if known else problem)
            self._faults[job.id] = fault
            if isinstance(problem, ServiceError):  # the cluster may be away: ask it
                self._looked = float("-inf")

    def notes(self, job: Job) -> list[str]:
        """Returns the faults of what a job has left, and of the last look at it; phrases for its page."""
        found: list[str] = []
        if job.attempt:
            attempt_of(self.home, job.id, job.attempt).record(found)
        if job.id in self._faults:
            found.append(f"the service could not see to this job: {self._faults[job.id]}")
        return found

    def _settle_one(self, job: Job, seen: Observation | None, reachable: bool) -> None:
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
            self._hand_over(job)
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

    def _hand_over(self, job: Job) -> None:
        """Starts an attempt; one that was started before stays as it is. The owners of files and models are checked
        again: others may have made some, or been given the name, since the job was planned."""
        plan = job.plan or {}
        try:
            granted = self.intake.places.check(job.owner, plan.get("places", ()))
            owner = self.intake.ownership.claim(plan, job.owner, job.admin)
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
        self.executor.submit(replace(describe_attempt(job), model_owner=owner, grant=grant))

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
        plan = job.plan or {}
        run = progress(plan.get("run_dir") if job.verb == "train" else None)
        values = dict(verdict.values)
        if job.verb == "train":
            *before, last = self.ledger.attempts(job.id)
            values["startup"] = self._startup(plan.get("run_dir"), run, before, last)
            if verdict.outcome != "succeeded":
                values |= {"kept_step": run.kept, "kept_seconds": run.kept_seconds}
                if not _same_steps(run, before):
                    values |= {"lost_tokens": run.lost_tokens, "lost_seconds": run.lost_seconds}
        if verdict.state == State.WAITING:
            values |= self.intake.left(job, run.kept)
        reason = f"{verdict.reason}; {run.damage}" if run.damage else verdict.reason
        self.ledger.end(job, verdict.state, verdict.outcome, verdict.cause, reason, code, **values)
        self._asked.pop(f"{job.id}-a{job.attempt}", None)
        self.pending.pop(f"{job.id}-a{job.attempt}", None)
        if self.executor.queues:  # otherwise it would make another attempt of its own
            self.executor.kill(describe_attempt(job))
        if verdict.state == State.SUCCEEDED:
            self._measure(self.ledger.job(job.id), run)

    def _startup(self, run_dir: str | None, run: Progress, before: Sequence[Attempt], last: Attempt) -> float:
        """Returns the seconds of an ending attempt until its first step; all of them if it had none."""
        now = self.ledger.now()
        if _same_steps(run, before) or not run.step:
            return max(0.0, now - last.decided)
        seen = footprint(run_dir, last.decided, _kept_seconds(before), now)
        return 0.0 if seen.stepped is None else max(0.0, seen.stepped - last.decided)

    def _footprints(self, names: Sequence[str]) -> dict[str, Footprint]:
        """Returns what running trainings would lose."""
        found, now = {}, self.ledger.now()
        for name in names:
            try:
                job = self.ledger.job(name)
            except UnknownJobError:  # removed in the meantime
                continue
            *before, last = self.ledger.attempts(name)
            times = sum(one.cause == PREEMPTION for one in before)
            run_dir = (job.plan or {}).get("run_dir")
            found[name] = footprint(run_dir, last.decided, _kept_seconds(before), now, times)
        return found

    def _measure(self, job: Job, run: Progress) -> None:
        """Records what the last attempt took, from the point where the one before it had saved the run."""
        plan = job.plan or {}
        *before, last = self.ledger.attempts(job.id)
        if before and job.verb != "train":  # work in several attempts has no single time
            return
        kept_step, kept_seconds = (before[-1].kept_step, before[-1].kept_seconds) if before else (0, 0.0)
        steps, training = run.step - kept_step, run.seconds - kept_seconds
        ran = (last.ended or 0) - (last.started or last.decided)
        if training > ran:  # an earlier job had trained a part of it
            return
        promised = plan.get("seconds", {}).get(str(last.workers)) or {}
        steps_planned = max(1, int(plan.get("steps") or 1))
        with self.ledger.database.write() as session:
            session.execute(
                insert(Measurement).values(
                    **{"at": self.ledger.now(), "job": job.id, "cluster": self.intake.cluster, "verb": job.verb},
                    **{"shape": plan.get("shape", ""), "steps": steps, "workers": last.workers, "training": training},
                    **{key: float(plan.get(key) or 0.0) / steps_planned for key in ("flops", "tokens")},
                    **{"width": int(plan.get("width", 0)), "layers": int(plan.get("layers", 0))},
                    **{"architecture": str(plan.get("architecture", "")), "around": max(0.0, ran - training)},
                    **{"predicted": promised.get("expected"), "low": promised.get("low"), "high": promised.get("high")},
                )
            )
        if promised and not before:  # a forecast is for the whole job
            self.judged(ran / max(promised["expected"], 1e-3), promised["low"] <= ran <= promised["high"])

    def _end_followers(self) -> None:
        """Ends jobs that come after one that has not succeeded: they will never start."""
        following = self.ledger.following()
        states = self.ledger.states(sorted({other for job in following for other in job.after}))
        for job in following:
            for other in job.after:
                found = states.get(other)
                if found is None or (found in ENDED and found != State.SUCCEEDED):
                    reason = f"it comes after job {other}, which {'was removed' if found is None else f'is {found}'}"
                    try:
                        self.ledger.change(job, State.FAILED, "scheduler", reason)
                    except ConflictError:
                        logger.info("job %s has changed in the meantime", job.id)
                    break


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


def _kept_seconds(before: Sequence[Attempt]) -> float:
    """Returns the seconds of training that the attempts before have saved."""
    return before[-1].kept_seconds if before else 0.0


def _same_steps(run: Progress, before: Sequence[Attempt]) -> bool:
    """Returns True if the run has no new step since the attempt before ended: earlier losses count for that one."""
    if not before:
        return False
    one = before[-1]
    return run.seconds <= one.kept_seconds or (
        run.kept == one.kept_step and abs(run.seconds - one.kept_seconds - one.lost_seconds) < 1e-6
    )


def _versions(jobs: Sequence[Job], job: Job) -> set[int]:
    return {one.version for one in jobs if one.id == job.id}
