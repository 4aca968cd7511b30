"""Intake: turns submitted jobs into waiting ones, each with its plan; each owner's by age, several owners at once."""

import logging
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from dragoman.model.errors import UserError, is_infrastructure, reason
from dragoman.services.jobs.ledger.access import Rights
from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.ledger.ledger import ConflictError, Ledger
from dragoman.services.jobs.planning.planner import Planner
from dragoman.services.jobs.scheduling.entries import Capacity
from dragoman.services.jobs.service.ownership import Ownership
from dragoman.services.jobs.service.plans import Plans, Request, expected_seconds
from dragoman.services.jobs.service.tracking import Tracking
from dragoman.services.jobs.states import State

AT_ONCE = 2  # plans of one owner at a time
LOOKED_AT = 50  # jobs per owner in one turn: thousands of one owner's do not hide another's
THREADS = 16
BESIDE = 1.0  # seconds after which an unfinished plan no longer holds up others
PAUSES = (1.0, 5.0, 15.0, 60.0)  # seconds before a plan is tried again that the infrastructure has prevented
logger = logging.getLogger(__name__)


class Intake:
    """Plans the submitted jobs of a ledger."""

    def __init__(self, ledger: Ledger, planner: Planner, cluster: str, tracking: Tracking | None = None) -> None:
        """`cluster` names the cluster of the measurements; jobs register models in `tracking`."""
        self.ledger = ledger
        self.ownership = Ownership(ledger, Path(planner.roots[0]), tracking or Tracking("", ""))
        self.plans = Plans(ledger, planner, self.ownership, cluster)
        self.rights = Rights(ledger)
        self.waits: dict[str, str] = {}  # job -> why it has no plan yet
        self._lock = threading.Lock()
        self._making: dict[str, str] = {}  # job -> its owner
        self._tries: dict[str, tuple[int, float]] = {}  # job -> its tries, and when the next is due, monotonic
        self._pool = ThreadPoolExecutor(THREADS, "plan")

    @property
    def planner(self) -> Planner:
        return self.plans.planner

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
            self._queue(job, self._plan(job, capacity) if job.state == State.SUBMITTED else {})
        except ConflictError:  # stopped or removed in the meantime
            logger.info("job %s changed while it was planned", job.id)
        except UserError as problem:
            self._fail(job, str(problem))
        except SQLAlchemyError:  # it stays submitted
            raise
        except Exception as problem:
            late = is_infrastructure(problem)
            if late:  # it stays submitted too
                self._put_back(job, problem)
            else:  # a fault of the program must not keep later jobs from being planned
                logger.exception("job %s could not be planned", job.id)
                self._fail(job, f"it could not be planned: {problem}"[:300])
        finally:
            if not late:
                self.waits.pop(job.id, None)
                self._tries.pop(job.id, None)
            with self._lock:
                del self._making[job.id]

    def _plan(self, job: Job, capacity: Capacity | None) -> dict[str, Any]:
        """Returns the columns that a plan gives a job. It may wait for nodes that the cluster lacks."""
        states = self.ledger.states(job.after)
        early = any(states.get(other) != State.SUCCEEDED for other in job.after)
        request = Request(job.owner, job.verb, job.words, self.rights.is_admin(job), early)
        plan = self.plans.make(request, capacity)
        columns = {"plan": plan, "run": plan["claims"], "model": plan.get("model", "")}
        columns |= {key: plan[key] for key in ("choices", "cpus", "gpus")}
        columns["seconds"] = plan["seconds"].get(str(plan["choices"][0]))
        if name := plan["claims"].rpartition("/")[2].rpartition(" ")[2][:160]:
            columns["name"] = name
        return columns

    def _queue(self, job: Job, planned: dict[str, Any]) -> None:
        with self.ledger.write(lasting=False) as session:
            if planned:
                text = f"planned: {planned['plan']['fingerprint'][:12]}"
                job = self.ledger.move(session, job, State.PLANNED, "planner", text, **planned)
            self.ledger.move(session, job, State.WAITING, "planner", "in the queue")

    def _fail(self, job: Job, why: str) -> None:
        try:
            self.ledger.change(job, State.FAILED, "planner", why)
        except ConflictError:  # as in `_take_one`
            logger.info("job %s changed while it was planned", job.id)

    def _put_back(self, job: Job, problem: Exception) -> None:
        tries = self._tries.get(job.id, (0, 0.0))[0]
        self.waits[job.id] = f"it waits for its plan: {reason(problem)}"
        self._tries[job.id] = tries + 1, time.monotonic() + PAUSES[min(tries, len(PAUSES) - 1)]
        if not tries:
            logger.warning("job %s: %s", job.id, self.waits[job.id])

    def seconds_left(self, job: Job, done: int) -> float | None:
        """Returns the expected time of a planned job after `done` of its steps; None if nobody knows."""
        if not job.plan or not job.choices:
            return None
        return expected_seconds(job.plan, job.choices[0], self.plans.measured(), done)
