"""Intake: turns a submitted job into a waiting one, with its plan, its needs of the cluster and its expected time."""

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import bindparam, func, select
from sqlalchemy.exc import SQLAlchemyError

from dragoman.conf.again import key_of
from dragoman.model.errors import UserError, is_infrastructure, reason
from dragoman.model.plural import plural
from dragoman.services.from_home import is_open
from dragoman.services.jobs.ledger.access import Rights
from dragoman.services.jobs.ledger.ledger import ConflictError, Ledger
from dragoman.services.jobs.ledger.tables import Job, Measurement
from dragoman.services.jobs.planning.estimate import estimate
from dragoman.services.jobs.planning.planner import Planner, RefusedPlanError
from dragoman.services.jobs.planning.refusals import as_jobs
from dragoman.services.jobs.scheduling.entries import Capacity
from dragoman.services.jobs.scheduling.room import FreeResources, Needs
from dragoman.services.jobs.service.ownership import OWNER_WORD, Ownership
from dragoman.services.jobs.service.tracking import Tracking
from dragoman.services.jobs.states import State

RANGED = ("train", "shard")  # commands that run with any number of workers
WORKERS = re.compile(r"\+*cluster\.workers=")
MOST = 1024  # workers to try
AT_ONCE = 2  # plans of one owner at a time
LOOKED_AT = 50  # jobs per owner in one turn: thousands of one owner's do not hide another's
THREADS = 16
BESIDE = 1.0  # seconds after which an unfinished plan no longer holds up others
PAUSES = (1.0, 5.0, 15.0, 60.0)  # seconds before a plan is tried again that the infrastructure has prevented
NEWEST = 200  # measurements for an estimate
# Used for every plan, so it is made once.
NEWEST_MEASUREMENT = select(func.max(Measurement.id)).where(Measurement.cluster == bindparam("cluster"))
logger = logging.getLogger(__name__)


class Intake:
    """Plans submitted jobs: each owner's jobs by age, several owners in parallel."""

    def __init__(self, ledger: Ledger, planner: Planner, cluster: str, tracking: Tracking | None = None) -> None:
        """`cluster` names the cluster of the measurements; jobs register models in `tracking`."""
        self.ledger, self.planner, self.cluster = ledger, planner, cluster
        self.ownership = Ownership(ledger, Path(planner.roots[0]), tracking or Tracking("", ""))
        self.rights = Rights(ledger)
        self._lock = threading.Lock()
        self._making: dict[str, str] = {}  # job -> its owner
        self.waits: dict[str, str] = {}  # job -> why it has no plan yet
        self._tries: dict[str, tuple[int, float]] = {}  # job -> its tries, and when the next is due, monotonic
        self._pool = ThreadPoolExecutor(THREADS, "plan")
        self._measured: tuple[int, list[Measurement]] = 0, []  # the id of the newest, and all that are used

    def take(self, capacity: Capacity | None) -> int:
        """Plans submitted jobs; returns the number of plans made. Does not wait for a slow one."""
        made: list[Future[None]] = []
        for job in self.ledger.jobs([State.SUBMITTED, State.PLANNED], ascending=True, each=LOOKED_AT):
            with self._lock:
                if self._tries.get(job.id, (0, 0.0))[1] > time.monotonic():
                    continue
                if job.id in self._making or Counter(self._making.values())[job.owner] >= AT_ONCE:
                    continue
                self._making[job.id] = job.owner
            made.append(self._pool.submit(self._take_one, job, capacity))
        done, _ = wait(made, BESIDE)
        for answer in done:
            answer.result()
        return len(done)

    def _take_one(self, job: Job, capacity: Capacity | None) -> None:
        late = False
        try:
            self._plan(job, capacity)
        except ConflictError:  # stopped or removed in the meantime
            logger.info("job %s changed while it was planned", job.id)
        except SQLAlchemyError:  # it stays submitted
            raise
        except Exception as problem:
            late = is_infrastructure(problem)
            if late:  # it stays submitted too
                self._put_back(job, problem)
            else:  # a fault of the program must not keep later jobs from being planned
                logger.exception("job %s could not be planned", job.id)
                self.ledger.change(job, State.FAILED, "planner", f"it could not be planned: {problem}"[:300])
        finally:
            if not late:
                self.waits.pop(job.id, None)
                self._tries.pop(job.id, None)
            with self._lock:
                del self._making[job.id]

    def _put_back(self, job: Job, problem: Exception) -> None:
        tries = self._tries.get(job.id, (0, 0.0))[0]
        self.waits[job.id] = f"it waits for its plan: {reason(problem)}"
        self._tries[job.id] = tries + 1, time.monotonic() + PAUSES[min(tries, len(PAUSES) - 1)]
        if not tries:
            logger.warning("job %s: %s", job.id, self.waits[job.id])

    def plan(
        self,
        owner: str,
        verb: str,
        words: Sequence[str],
        capacity: Capacity | None,
        early: bool = False,
        deadline: float | None = None,
        admin: bool = False,
        queued: bool = False,
    ) -> dict[str, Any]:
        """Returns the plan of a submission with its time for each number of workers.

        `early`: before the jobs that it comes after; `admin`: it has an admin's rights; `queued`: it may wait for
        nodes that the cluster lacks. With a deadline, `choices` are
        the numbers of workers with which it ends by then if it starts now; if the words name none, all that the cluster
        holds and that train the same as one.
        """
        gpus = sum(node.gpus for node in capacity.nodes) if capacity else 0.0
        ask = partial(self._ask, owner, admin, gpus, early, verb)
        plan = ask(words)
        free = not any(WORKERS.match(word) for word in words)
        if deadline is not None and free and plan["spreads"] and verb in RANGED and capacity is not None:
            plan = ask([*words, *_range_of(plan, capacity)])
        if capacity is not None and capacity.nodes and not queued:
            self._check_room(plan, capacity)
        self.ownership.check_model(plan, owner, admin)
        measured = self.measured()
        if capacity is not None and capacity.nodes:  # a range may exceed what the cluster ever holds
            most = FreeResources(capacity.nodes).holds(plan["cpus"], plan["gpus"], MOST)
            plan["choices"] = [workers for workers in plan["choices"] if workers <= most] or plan["choices"][:1]
            plan["traffic"] = {str(n): plan["traffic"][str(n)] for n in plan["choices"]} if plan.get("traffic") else {}
        times = {workers: estimate(plan, workers, measured) for workers in plan["choices"]}
        plan["seconds"] = {str(workers): asdict(seconds) for workers, seconds in times.items() if seconds is not None}
        if deadline is not None:
            plan["choices"] = self._in_time(plan, deadline - self.ledger.now())
        return plan

    def measured(self) -> list[Measurement]:
        """Returns this cluster's measurements, newest first."""
        last, runs = self._measured
        with self.ledger.database.read() as session:
            newest = session.scalar(NEWEST_MEASUREMENT, {"cluster": self.cluster}) or 0
            if newest != last:  # they are read for every plan, and the end of a job adds one
                ours = select(Measurement).where(Measurement.cluster == self.cluster)
                runs = list(session.scalars(ours.order_by(Measurement.id.desc()).limit(NEWEST)))
                self._measured = newest, runs
        return runs

    def left(self, job: Job, done: int) -> dict[str, float | None]:
        """Returns the columns of the time that a planned job still needs."""
        plan = job.plan or {}
        expected = estimate(plan, job.choices[0], self.measured(), done) if plan and job.choices else None
        low, high = (expected.low, expected.high) if expected else (None, None)
        return {"seconds_low": low, "seconds_high": high}

    def _plan(self, job: Job, capacity: Capacity | None) -> None:
        planned: dict[str, Any] = {}
        if job.state == State.SUBMITTED:
            try:
                states = self.ledger.states(job.after)
                early = any(states.get(other) != State.SUCCEEDED for other in job.after)
                admin = self.rights.is_admin(job)
                plan = self.plan(job.owner, job.verb, job.words, capacity, early, job.deadline, admin, queued=True)
            except UserError as problem:
                self.ledger.change(job, State.FAILED, "planner", str(problem))
                return
            seconds = plan["seconds"].get(str(plan["choices"][0])) or {}
            planned = {"plan": plan, "run": plan["claims"], "model": plan.get("model", "")}
            if name := plan["claims"].rpartition("/")[2].rpartition(" ")[2][:160]:
                planned["name"] = name
            planned |= {key: plan[key] for key in ("choices", "cpus", "gpus")}
            planned |= {f"seconds_{end}": seconds.get(end) for end in ("low", "high")}
        with self.ledger.write(lasting=False) as session:
            if planned:
                reason = f"planned: {planned['plan']['fingerprint'][:12]}"
                job = self.ledger.move(session, job, State.PLANNED, "planner", reason, **planned)
            self.ledger.move(session, job, State.WAITING, "planner", "in the queue")

    def _in_time(self, plan: dict[str, Any], left: float) -> list[int]:
        """Returns the numbers of workers with which it ends in `left` seconds."""
        choices: list[int] = plan["choices"]
        times = {workers: plan["seconds"].get(str(workers)) for workers in choices}
        good = [workers for workers, estimate in times.items() if estimate is not None and estimate["high"] <= left]
        if not good:
            times_told = ", ".join(
                f"{plural(workers, 'worker')} {estimate['low'] / 60:.0f} to {estimate['high'] / 60:.0f} min"
                if estimate
                else f"{plural(workers, 'worker')}: nobody knows"
                for workers, estimate in times.items()
            )
            raise UserError(f"jobs.by: {max(0.0, left) / 60:.0f} min are left; it would take: {times_told}")
        return good

    def _check_room(self, plan: dict[str, Any], capacity: Capacity) -> None:
        room, least = FreeResources(capacity.nodes), plan["choices"][0]
        if not room.fits(Needs((least,), plan["cpus"], plan["gpus"])):
            gpus = f" and {least * plan['gpus']:g} GPUs" if plan["gpus"] else ""
            raise UserError(
                f"cluster.workers={least}: needs {least * plan['cpus']:g} CPUs{gpus}; the cluster has {room.cpus:g} "
                f"CPUs and {room.gpus:g} GPUs in all. Ask for fewer workers, or join more nodes to it"
            )

    def _ask(
        self, owner: str, admin: bool, gpus: float, early: bool, verb: str, words: Sequence[str]
    ) -> dict[str, Any]:
        """Returns the planner's answer, without what it says about another owner's files, even in a refusal.

        Shards that the owner has not, and that no job made, are read where they are."""
        visible: Sequence[str] = ()
        if verb != "shard" and is_open(verb, words):
            if early:
                raise UserError(f"{verb}: comes after another job; say which shards, with that job's corpus and pair")
            visible = [*self.ownership.visible(owner), self.planner.roots[0]]  # there may be none
        if not any(key_of(word) == OWNER_WORD for word in words):
            words = [*words, f"{OWNER_WORD}={owner}"]
        plan: dict[str, Any] = {}
        try:
            plan = self.planner.plan(verb, words, gpus, early, *visible)
            places, refusal = plan.get("places", []), ""
        except RefusedPlanError as problem:
            places, refusal = problem.places, as_jobs(str(problem))
        self.ownership.grant(owner, places, admin)
        if plan:
            return plan
        common = "" if any(key_of(word) == "paths.shards" for word in words) else self._made_by_no_job(owner, places)
        if not common:
            raise UserError(refusal)
        return self._ask(owner, admin, gpus, early, verb, [*words, f"paths.shards={common}"])

    def _made_by_no_job(self, owner: str, places: Sequence[Mapping[str, str]]) -> str:
        """Returns the shards beside the owners' folders that have the name of those which a job would read."""
        read = next((Path(place["path"]) for place in places if place["key"] == "paths.shards"), None)
        shards = Path(self.planner.roots[0]).resolve() / "shards"
        if read is None or read.parent != shards / owner or read.exists():
            return ""
        common = shards / read.name
        return str(common) if (common / "manifest.json").is_file() and not self.ownership.owners(common) else ""


def _range_of(plan: dict[str, Any], capacity: Capacity) -> list[str]:
    """Returns words for every number of workers that the cluster holds.

    For a training only those that divide its lanes, which are fixed, so that it trains the same with each."""
    most = FreeResources(capacity.nodes).holds(plan["cpus"], plan["gpus"], MOST)
    if plan["verb"] != "train":
        return [f"cluster.workers=1..{max(1, most)}"]
    return [f"cluster.workers=1..{max(1, min(most, plan['lanes']))}", f"loader.lanes={plan['lanes']}"]
