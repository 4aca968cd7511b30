"""The requests of people to the service, each checked: the job's owner, and the state that allows it."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fastapi import HTTPException

from dragoman.conf.again import key_of
from dragoman.model.errors import ServiceError, UserError
from dragoman.services.jobs import views
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.ledger.filters import JobQuery, ListQuery
from dragoman.services.jobs.ledger.ledger import ConflictError, Ledger, TooManyError, UnknownJobError
from dragoman.services.jobs.ledger.ledger import Options as Columns
from dragoman.services.jobs.planning.refusals import CLAIMS, as_jobs, check_words
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.scheduling.why import Why, explain, find_holders
from dragoman.services.jobs.service import schemas
from dragoman.services.jobs.service.attempts import describe_attempt
from dragoman.services.jobs.service.logs import error_of
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.service.plans import Request, check_room
from dragoman.services.jobs.settings import ServiceConfig
from dragoman.services.jobs.states import ACTIVE, ENDED, QUEUED, State

AGAIN = 5  # attempts to change a row that others change too


class Operations:
    """The operations on a ledger and its loop."""

    def __init__(self, ledger: Ledger, loop: Loop, config: ServiceConfig) -> None:
        self.ledger, self.loop, self.config = ledger, loop, config
        ledger.changed = loop.wake

    def job(self, person: Person, name: str) -> Job:
        """Returns the job with an id, or else the newest with a name.

        Raises UnknownJobError: there is none, or, to reveal nothing, it is another owner's.
        """
        try:
            job = self.ledger.job(name)
            if person.sees(job.owner):
                return job
        except UnknownJobError:
            pass
        named, _ = self.ledger.rows(("seq", "id"), JobQuery(name=name), limit=1, seen=person.jobs())
        if not named:
            raise UnknownJobError(name)
        return self.ledger.job(named[0].id)

    def page(self, person: Person, query: ListQuery) -> schemas.JobPage:
        """Returns the wanted jobs, and the number of jobs in each state."""
        seen = person.jobs()
        newest = self.ledger.newest  # before the jobs are read, so that no change is missed
        rows, following = self.ledger.rows(("seq", *views.COLUMNS), query, query.cursor, query.limit, seen)
        jobs = [views.job_view(row) for row in rows]
        for job in jobs:
            job["why"] = self.wait_text(job["id"], job["state"], job["attempt"])
        return schemas.JobPage(jobs=jobs, next=following, counts=self.ledger.counts(query, seen), newest=newest)

    def wait_of(self, name: str, state: str, attempt: int) -> Why | None:
        """Returns what a job waits for, without who holds that; None if it does not wait."""
        loop = self.loop
        if state == State.STARTING and (pending := loop.attempts.pending.get(f"{name}-a{attempt}")):
            return Why("queue", pending)
        if state in (State.SUBMITTED, State.PLANNED):
            return Why("plan", loop.intake.waits.get(name, "it waits for its plan"))
        if state != State.WAITING:
            return None
        if loop.trouble or loop.capacity is None or not loop.capacity.nodes:
            return Why("cluster", f"the cluster does not answer: {loop.trouble or 'none of its nodes is there yet'}")
        return explain(loop.scheduler.outcome.waits.get(name))

    def wait_text(self, name: str, state: str, attempt: int) -> str:
        """Returns what a job waits for, the same in lists, on pages and for `why`; empty if it does not wait."""
        why = self.wait_of(name, state, attempt)
        return why.text if why else ""

    def plan(self, person: Person, body: schemas.PlanRequest) -> dict[str, Any]:
        """Returns the plan."""
        capacity = self.loop.capacity
        request = Request(person.acts_as(body.owner), body.verb, body.overrides, person.may("admin"))
        plan = self.loop.intake.plans.make(request, capacity)
        if capacity is not None and capacity.nodes:
            check_room(plan, capacity)
        return plan

    def submit(self, person: Person, body: schemas.Submission) -> Job:
        """Creates a job."""
        check_words(body.verb, body.overrides)
        after = [self.job(person, other).id for other in body.after]
        options: Columns = {
            **body.columns(),
            "name": name_in(body.verb, body.overrides),
            "admin": person.may("admin"),
            "token": self.loop.intake.rights.lender(person),
        }
        command, most = (person.acts_as(body.owner), body.verb, body.overrides), self.config.waiting
        try:
            return self.ledger.submit(*command, after=after, key=body.key, most=most, **options)
        except TooManyError:
            words = f"{self.config.waiting} of your jobs have not ended"
            raise HTTPException(429, words, {"Retry-After": "60"}) from None

    def stop(self, person: Person, name: str) -> Job:
        """Stops a job. Raises ConflictError if it has ended."""
        return self._change(
            person, name, lambda job: State.STOPPING if job.state in ACTIVE else State.STOPPED, "stopped by"
        )

    def make_room(self, person: Person, name: str) -> Job:
        """Asks a job to make room. Raises ConflictError if it does not run."""
        return self._change(person, name, lambda _: State.YIELDING, "asked to yield by")

    def retry(self, person: Person, name: str) -> Job:
        """Queues a job again. Raises ConflictError if it has not ended."""
        # a person who lost an admin's rights does not keep them here, nor does an admin lend them to another's job
        admin = self.job(person, name).admin and person.may("admin")
        fresh: dict[str, Any] = {"failures": 0, "losses": 0, "spent": 0.0, "admin": admin}
        fresh |= {"token": self.loop.intake.rights.lender(person)}
        return self._change(person, name, lambda _: State.SUBMITTED, "tried again by", **fresh)

    def _change(self, person: Person, name: str, state: Callable[[Job], State], words: str, **values: Any) -> Job:
        def change(job: Job) -> Job:
            new_state = state(job)
            if job.state == new_state and new_state in ACTIVE:
                return job  # it was asked before
            who = person.owner if job.owner in person.owners else "an admin"  # the owner reads the reason
            return self.ledger.change(job, new_state, person.owner, f"{words} {who}", **values)

        return self._repeat(person, name, change)

    def _repeat(self, person: Person, name: str, change: Callable[[Job], Job]) -> Job:
        """Makes a change to a job, again if others change it at the same time."""
        for last in [False] * (AGAIN - 1) + [True]:
            job = self.job(person, name)
            try:
                return change(job)
            except ConflictError:
                if last or self.ledger.job(job.id).version == job.version:
                    raise
        raise AssertionError("unreachable")

    def set_priority(self, person: Person, name: str, priority: int) -> Job:
        """Sets a job's priority. Raises ConflictError if it has ended."""

        def change(job: Job) -> Job:
            if job.state in ENDED:
                raise ConflictError(f"job {name} is {job.state}: its turn is over")
            return self.ledger.set_priority(job, priority, person.owner)

        return self._repeat(person, name, change)

    def set_after(self, person: Person, name: str, after: Sequence[str]) -> Job:
        """Sets the jobs that a job comes after.

        Raises:
            ConflictError: it has started.
        """

        def change(job: Job) -> Job:
            if job.state not in QUEUED:
                raise ConflictError(f"job {name} is {job.state}: it has had its turn")
            others = [self.job(person, other) for other in after]
            for other in others:
                if other.state in ENDED - {State.SUCCEEDED}:
                    raise UserError(f"after: job {other.id} is {other.state}, so {job.id} would never start")
            ids = list(dict.fromkeys(other.id for other in others))
            seen, ahead = set[str](), list(ids)
            while ahead:
                ahead_id = ahead.pop()
                if ahead_id == job.id:
                    raise UserError(f"after: job {job.id} would wait for itself")
                if ahead_id not in seen:
                    seen.add(ahead_id)
                    ahead += self.job(person, ahead_id).after
            return self.ledger.set_after(job, ids, person.owner)

        return self._repeat(person, name, change)

    def remove(self, person: Person, name: str) -> None:
        """Removes a job and its logs. Raises ConflictError if it has not ended."""
        job = self.job(person, name)
        self.ledger.remove(job, person.owner)
        shutil.rmtree(self.loop.home / "jobs" / job.id, ignore_errors=True)

    def why(self, person: Person, name: str) -> Why:
        """Returns why a job waits, or what it does instead; see `explain`."""
        job = self.job(person, name)
        why, scheduler = self.wait_of(job.id, job.state, job.attempt), self.loop.scheduler
        if why is None:
            error = self.error(job)
            where = f"; its log says: {error}" if error else ""
            reason = "" if job.reason == job.state else f" ({job.reason})"
            return Why(kind=job.state, text=f"it does not wait: its state is {job.state}{reason}{where}")
        entry, wait = scheduler.entries.get(job.id), scheduler.outcome.waits.get(job.id)
        if entry is None or wait is None or why.kind != wait.kind:
            return why
        holders = find_holders(entry, wait, scheduler.entries.values(), self.ledger.now())
        return replace(why, holders=tuple(replace(holder, owner=person.name_of(holder.owner)) for holder in holders))

    def error(self, job: Job) -> str:
        """Returns the error in the log of a job that has failed; empty: there is none."""
        if job.state not in (State.FAILED, State.LOST) or not job.attempt:
            return ""
        return as_jobs(error_of(attempt_of(self.loop.home, job.id, job.attempt).log))

    def changes(self, person: Person, name: str) -> list[schemas.ChangeView]:
        """Returns the changes of a job, as the person may read them.

        Raises UnknownJobError: there is no such job, or the person may not see it.
        """
        job = self.job(person, name).id
        return [schemas.ChangeView.shown(change, person) for change in self.ledger.changes(job=job, limit=10_000)]

    def log(self, person: Person, name: str, attempt: int, offset: int, limit: int) -> tuple[bytes, int]:
        """Returns a piece of an attempt's log, and the attempt's number; 0 if there is none yet.

        Raises HTTPException: 404, there is no such attempt.
        """
        job = self.job(person, name)
        number = attempt or job.attempt
        if number > job.attempt:
            raise HTTPException(404, f"job {name} has had {job.attempt} attempts")
        if number == 0:
            return b"", 0
        start = replace(describe_attempt(job), number=number)
        try:
            return self.loop.executor.logs(start, offset, limit), number
        except ServiceError as problem:
            raise HTTPException(503, str(problem)) from None


def name_in(verb: str, words: Sequence[str]) -> str:
    """Returns the name of the run or the shards that words say; empty: it shows when the job is planned."""
    key = CLAIMS.get(verb)
    values = [word.partition("=")[2] for word in words if key_of(word) == key]
    return values[-1].rstrip("/").rpartition("/")[2][:160] if values else ""
