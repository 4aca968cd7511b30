"""What people may ask of the service, each checked: whose job it is, and whether its state allows it."""

from collections.abc import Collection, Sequence
from typing import Any

from fastapi import HTTPException
from sqlalchemy import and_, func, select
from sqlalchemy.orm import aliased

from model.errors import ServiceError
from services.jobs.ledger.access import Person
from services.jobs.ledger.ledger import ConflictError, Ledger, TooManyError, UnknownJobError
from services.jobs.ledger.tables import Attempt, Job
from services.jobs.planning.refusals import check_words
from services.jobs.scheduling.why import explain
from services.jobs.service import schemas
from services.jobs.service.attempts import handed
from services.jobs.service.loop import Loop
from services.jobs.service.outlook import Outlook
from services.jobs.settings import ServiceConfig
from services.jobs.states import ACTIVE, ENDED, PRIORITIES, State

COLUMNS = [name for name in schemas.JobView.model_fields if name != "why"]  # of the ledger
LIST_PATIENCE = 0.5  # seconds that a list of jobs waits for why they wait: a command line asks once
AGAIN = 5  # times that a change is tried where somebody else is quicker


class Desk:
    """Over a ledger and its loop."""

    def __init__(self, ledger: Ledger, loop: Loop, config: ServiceConfig, outlook: Outlook) -> None:
        self.ledger, self.loop, self.config, self.outlook = ledger, loop, config, outlook
        ledger.changed = loop.wake

    def only(self, person: Person, owner: str | None) -> str | None:
        """Whose jobs are shown; None: everybody's. Whoever may not see all owners sees their own."""
        return owner if person.sees_all else person.owner

    def job(self, person: Person, name: str) -> Job:
        """Raises UnknownJobError where there is none, or it is another's: that there is one is nobody's business."""
        job = self.ledger.job(name)
        if not person.sees(job.owner):
            raise UnknownJobError(name)
        return job

    def page(
        self, person: Person, states: Collection[State], owner: str | None, before: int | None, limit: int
    ) -> schemas.JobPage:
        """Jobs by age, the newest first, and how many there are in each state."""
        whose = self.only(person, owner)
        newest = self.ledger.newest  # before the jobs are read: a change in between is not missed
        found = self.ledger.rows(("seq", *COLUMNS), states, whose, before, limit)
        jobs = [schemas.JobView.model_validate(row) for row in found]
        waits = self.waits_for(jobs)
        for job in jobs:
            job.why = waits.get(job.id, "")
        following = found[-1].seq if len(found) == limit else None
        return schemas.JobPage(jobs=jobs, next=following, counts=self.ledger.counts(whose), newest=newest)

    def waits_for(self, jobs: Sequence[schemas.JobView]) -> dict[str, str]:
        """Id -> what a waiting job waits for, as the pages say it; of those of `jobs` for which it is known."""
        waiting = [job.id for job in jobs if job.state == State.WAITING]
        if self.loop.trouble:
            return dict.fromkeys(waiting, f"the cluster does not answer: {self.loop.trouble}")
        forecasts = self.outlook.view(LIST_PATIENCE).forecasts if waiting else {}
        return {name: forecasts[name].text for name in waiting if name in forecasts}

    def plan(self, person: Person, body: schemas.PlanRequest) -> dict[str, Any]:
        """Raises UserError where it is refused."""
        return self.loop.intake.plan(
            person.owner, body.verb, body.overrides, self.loop.capacity, deadline=body.by, admin=person.may("admin")
        )

    def submit(self, person: Person, body: schemas.Submission, trace: str | None = None) -> Job:
        """Raises UserError or HTTPException (429) where it is refused."""
        check_words(body.verb, body.overrides)
        for other in body.after:
            self.job(person, other)
        try:
            return self.ledger.submit(
                person.owner,
                body.verb,
                body.overrides,
                priority=PRIORITIES[body.priority],
                after=body.after,
                retries=body.retries,
                max_seconds=body.max_hours * 3600 if body.max_hours else None,
                deadline=body.by,
                key=body.key,
                trace=trace,
                most=self.config.waiting,
                admin=person.may("admin"),
            )
        except TooManyError:
            words = f"{self.config.waiting} of your jobs have not ended"
            raise HTTPException(429, words, {"Retry-After": "60"}) from None

    def stop(self, person: Person, name: str) -> Job:
        """Raises ConflictError where it has ended."""

        def wanted(job: Job) -> State:
            return State.STOPPING if job.state in ACTIVE else State.STOPPED

        return self._change(person, name, wanted, "stopped by")

    def make_room(self, person: Person, name: str) -> Job:
        """Raises ConflictError where it does not run."""
        return self._change(person, name, lambda _: State.YIELDING, "asked to yield by")

    def retry(self, person: Person, name: str) -> Job:
        """Raises ConflictError where it has not ended."""
        # whoever has lost an admin's rights does not keep them, and an admin does not lend them to another's job
        admin = self.job(person, name).admin and person.may("admin")
        fresh = {"failures": 0, "losses": 0, "spent": 0.0, "admin": admin}
        return self._change(person, name, lambda _: State.SUBMITTED, "tried again by", **fresh)

    def _change(self, person: Person, name: str, state: Any, words: str, **values: Any) -> Job:
        for last in [False] * (AGAIN - 1) + [True]:
            job = self.job(person, name)
            wanted = state(job)
            if job.state == wanted and wanted in ACTIVE:
                return job  # it has been asked
            try:
                who = person.owner if person.owner == job.owner else "an admin"  # the owner reads the reason
                return self.ledger.change(job, wanted, person.owner, f"{words} {who}", **values)
            except ConflictError:
                if last or self.ledger.job(name).version == job.version:
                    raise
        raise AssertionError("unreachable")

    def set_priority(self, person: Person, name: str, priority: int) -> Job:
        """Raises ConflictError where it has ended."""
        for last in [False] * (AGAIN - 1) + [True]:
            job = self.job(person, name)
            if job.state in ENDED:
                raise ConflictError(f"job {name} is {job.state}: its turn is over")
            try:
                return self.ledger.set_priority(job, priority, person.owner)
            except ConflictError:
                if last:
                    raise
        raise AssertionError("unreachable")

    def remove(self, person: Person, name: str) -> None:
        """Raises ConflictError where it has not ended."""
        self.ledger.remove(self.job(person, name), person.owner)

    def why(self, person: Person, name: str, forecasts: bool = True) -> schemas.WhyView:
        """Why it waits, or what it does instead; see `explain`."""
        job = self.job(person, name)
        pending = self.loop.attempts.pending.get(f"{job.id}-a{job.attempt}")
        if job.state == State.STARTING and pending:
            return schemas.WhyView(kind="queue", text=pending)
        if job.state != State.WAITING:
            return schemas.WhyView(kind=job.state, text=f"it does not wait: it is {job.state} ({job.reason})")
        if self.loop.capacity is None or self.loop.trouble:
            trouble = self.loop.trouble or "it has not been asked yet"
            return schemas.WhyView(kind="cluster", text=f"the cluster does not answer: {trouble}")
        queue, quotas, rules = self.loop.passes.snapshot()
        if name not in queue.jobs or queue.jobs[name].active:
            return self.why(person, name, forecasts)  # it has started since
        found = explain(name, queue, quotas, self.loop.capacity, self.ledger.now(), forecasts, rules)
        view = schemas.WhyView.model_validate(found)
        for holder in view.holders:
            holder.owner = person.name_of(holder.owner)
        return view

    def changes(self, person: Person, name: str) -> list[schemas.ChangeView]:
        """What happened to a job, as the person may read it.

        Raises:
            UnknownJobError: there is no such job, or the person may not see it.
        """
        self.job(person, name)
        return [schemas.ChangeView.shown(one, person) for one in self.ledger.changes(job=name, limit=10_000)]

    def log(self, person: Person, name: str, attempt: int, offset: int, limit: int) -> tuple[bytes, int]:
        """A piece of an attempt's log, and the attempt's number; 0 where there is none yet.

        Raises:
            HTTPException: 404, there is no such attempt.
        """
        job = self.job(person, name)
        number = attempt or job.attempt
        if number > job.attempt:
            raise HTTPException(404, f"job {name} has had {job.attempt} attempts")
        if number == 0:
            return b"", 0
        start = handed(job)
        try:
            return self.loop.executor.logs(type(start)(**{**vars(start), "number": number}), offset, limit), number
        except ServiceError as problem:
            raise HTTPException(503, str(problem)) from None

    def bill(self, person: Person, owner: str | None) -> list[schemas.BillRow]:
        """What was lost, the most first."""
        following = aliased(Attempt)
        sums = (func.count(), func.sum(Attempt.lost_seconds), func.sum(Attempt.lost_tokens), func.sum(Attempt.startup))
        away = func.coalesce(func.sum(following.started - Attempt.ended), 0.0)
        query = (
            select(Job.owner, Attempt.job, Attempt.cause, *sums, away)
            .join(Job, Job.id == Attempt.job)
            .outerjoin(following, and_(following.job == Attempt.job, following.number == Attempt.number + 1))
            .where(Attempt.outcome.in_(["failed", "lost", "yielded", "stopped"]))
            .group_by(Job.owner, Attempt.job, Attempt.cause)
            .order_by(func.sum(Attempt.lost_tokens).desc(), func.sum(Attempt.startup).desc(), Attempt.job)
            .limit(1000)
        )
        only = self.only(person, owner)
        if only is not None:
            query = query.where(Job.owner == only)
        with self.ledger.database.read() as session:
            names = ("owner", "job", "cause", "attempts", "seconds", "tokens", "startup", "away")
            found = [dict(zip(names, row, strict=True)) for row in session.execute(query)]
        return [schemas.BillRow.model_validate(row) for row in found]
