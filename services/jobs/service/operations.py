"""The requests of people to the service, each checked: the job's owner, and the state that allows it."""

import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from fastapi import HTTPException
from sqlalchemy import and_, func, select
from sqlalchemy.orm import aliased

from dragoman.conf.again import key_of
from dragoman.model.errors import ServiceError, UserError
from dragoman.services.jobs import views
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.audit import Audit, AuditQuery
from dragoman.services.jobs.ledger.filters import JobQuery, ListQuery
from dragoman.services.jobs.ledger.ledger import ConflictError, Ledger, TooManyError, UnknownJobError
from dragoman.services.jobs.ledger.ledger import Options as Columns
from dragoman.services.jobs.ledger.presets import Presets
from dragoman.services.jobs.ledger.tables import Attempt, AuditRow, Job, SavedPreset
from dragoman.services.jobs.options import KEPT, OPTION, is_option, merge_words
from dragoman.services.jobs.planning.refusals import as_jobs, check_words
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.scheduling.why import Why, explain
from dragoman.services.jobs.service import schemas
from dragoman.services.jobs.service.attempts import describe_attempt
from dragoman.services.jobs.service.forecaster import Forecaster
from dragoman.services.jobs.service.logs import error_of
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.service.people_schemas import BillRow
from dragoman.services.jobs.service.targets import check_target
from dragoman.services.jobs.service.usage import Spell, idle_spell
from dragoman.services.jobs.settings import ServiceConfig
from dragoman.services.jobs.states import ACTIVE, ENDED, QUEUED, UNENDED, State

LIST_PATIENCE = 0.5  # seconds that a list of jobs waits for the reasons: a command line asks only once
AGAIN = 5  # attempts to change a row that others change too


class Operations:
    """The operations on a ledger and its loop."""

    def __init__(self, ledger: Ledger, loop: Loop, config: ServiceConfig, forecaster: Forecaster) -> None:
        self.ledger, self.loop, self.config, self.forecaster = ledger, loop, config, forecaster
        self.audit = Audit(ledger)
        self.presets = Presets(ledger)
        ledger.changed = loop.wake

    def only(self, person: Person, owner: str | None) -> str | None:
        """Returns the owner whose rows are shown; None: all. People who may not see all owners see their own."""
        return owner if person.sees_all else person.owner

    def job(self, person: Person, name: str) -> Job:
        """Returns a job. Raises UnknownJobError if there is none, or, to reveal nothing, if it is another owner's."""
        job = self.ledger.job(name)
        if not person.sees_job(job):
            raise UnknownJobError(name)
        return job

    def own_job(self, person: Person, name: str) -> Job:
        """Returns a job that the person may change.

        Raises:
            UnknownJobError: as `job`.
            HTTPException: 403, it is another member's of their project.
        """
        job = self.job(person, name)
        if not person.controls(job):
            raise HTTPException(403, f"job {name} is {job.owner}'s: they and a maintainer of {job.project} may do it")
        return job

    def page(self, person: Person, query: ListQuery) -> schemas.JobPage:
        """Returns the wanted jobs, and the number of jobs in each state. Raises UserError for an impossible moment."""
        seen = person.jobs()
        newest = self.ledger.newest  # before the jobs are read, so that no change is missed
        rows, following = self.ledger.rows(("seq", *views.COLUMNS), query, query.cursor, query.limit, seen)
        jobs = [views.job_view(row) for row in rows]
        waits = self.waits_for(jobs)
        for job in jobs:
            job["why"] = waits.get(job["id"], "")
        return schemas.JobPage(jobs=jobs, next=following, counts=self.ledger.counts(query, seen), newest=newest)

    def waits_for(self, jobs: Sequence[views.Job]) -> dict[str, str]:
        """Returns id -> what a waiting job of `jobs` waits for, in the pages' words, if it is known."""
        names = [job["id"] for job in jobs if job["state"] == State.SUBMITTED]
        waiting = [job["id"] for job in jobs if job["state"] == State.WAITING]
        unplanned = {name: text for name, text in self.loop.intake.waits.copy().items() if name in {*names}}
        if self.loop.trouble:
            return unplanned | dict.fromkeys(waiting, f"the cluster does not answer: {self.loop.trouble}")
        forecasts = self.forecaster.view(LIST_PATIENCE).forecasts if waiting else {}
        return unplanned | {name: forecasts[name].text for name in waiting if name in forecasts}

    def plan(self, person: Person, body: schemas.PlanRequest) -> dict[str, Any]:
        """Returns the plan. Raises UserError if it is refused."""
        return self.loop.intake.plan(
            person.owner,
            body.verb,
            body.overrides,
            self.loop.capacity,
            deadline=body.by,
            admin=person.may("admin"),
            project=person.project(body.project),
        )

    def submit(self, person: Person, body: schemas.Submission, trace: str | None = None) -> Job:
        """Creates a job. Raises UserError or HTTPException (429) if it is refused."""
        check_words(body.verb, body.overrides)
        for target in body.notify:
            check_target(target, self.config.notify)
        for other in body.after:
            self.job(person, other)
        if project := person.project(body.project):
            self.loop.intake.projects.check_member(project, person.owner, person.may("admin"))
        options: Columns = {
            **body.columns(),
            "project": project,
            "deadline": body.by,
            "trace": trace,
            "admin": person.may("admin"),
            "token": self.loop.intake.rights.lender(person),
        }
        command, most = (person.owner, body.verb, body.overrides), self.config.waiting
        try:
            return self.ledger.submit(*command, after=body.after, key=body.key, most=most, **options)
        except TooManyError:
            words = f"{self.config.waiting} of your jobs have not ended"
            raise HTTPException(429, words, {"Retry-After": "60"}) from None

    def submit_array(self, person: Person, body: schemas.ArrayRequest, trace: str | None = None) -> list[Job]:
        """Creates a job for each of the body's runs, in order, once each value in them has been planned.

        They have a common tag, `array-` and a part of the key's hash. Trainings without a `name` in their runs get the
        common one, or the tag, and their number.
        """
        digest = hashlib.sha256((body.key or secrets.token_hex(16)).encode()).hexdigest()
        tag = f"array-{digest[:8]}"
        lines = [merge_words(body.overrides, run) for run in body.runs]
        if body.verb == "train" and not any(key_of(word) == "name" for run in body.runs for word in run):
            names = [word.partition("=")[2] for word in body.overrides if key_of(word) == "name"]
            wide = len(str(len(lines)))
            lines = [
                merge_words(line, [f"name={names[-1] if names else tag}-{number:0{wide}}"])
                for number, line in enumerate(lines, 1)
            ]
        for other in body.after:
            self.job(person, other)
        for line in _covering(lines):
            check_words(body.verb, line)
            self.plan(person, schemas.PlanRequest(verb=body.verb, overrides=line, by=body.by, project=body.project))
        unended = self.ledger.counts(JobQuery(owner=person.owner))
        if sum(unended.get(state, 0) for state in UNENDED) + len(lines) > self.config.waiting:
            raise HTTPException(429, f"{len(lines)} jobs more: at most {self.config.waiting} of yours may wait")
        common = body.model_dump(exclude={"runs", "overrides", "key", "tags"})
        return [
            self.submit(
                person,
                schemas.Submission(**common, overrides=line, tags=[*body.tags, tag], key=f"{digest[:40]}-{number}"),
                trace,
            )
            for number, line in enumerate(lines)
        ]

    def keep(self, person: Person, name: str, body: schemas.PresetRequest) -> SavedPreset:
        """Keeps a submission as a preset. Raises UserError if a word is refused, or the owner has too many."""
        check_words(body.verb, [word for word in body.words if not is_option(word)])
        for word in body.words:
            if is_option(word) and ("${" in word or not word.isprintable() or not OPTION.fullmatch(word)):
                raise UserError(f"{word[:80]!r}: a preset keeps jobs.{', jobs.'.join(KEPT)} and overrides of the job")
        return self.presets.put(person.owner, name, body.model_dump())

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
        job = self.own_job(person, name)
        admin = job.admin and person.may("admin")
        if job.project:
            self.loop.intake.projects.check_member(job.project, job.owner, admin)
        fresh: dict[str, Any] = {"failures": 0, "losses": 0, "spent": 0.0, "admin": admin}
        fresh |= {"token": self.loop.intake.rights.lender(person)}
        return self._change(person, name, lambda _: State.SUBMITTED, "tried again by", **fresh)

    def _change(self, person: Person, name: str, state: Callable[[Job], State], words: str, **values: Any) -> Job:
        def change(job: Job) -> Job:
            new_state = state(job)
            if job.state == new_state and new_state in ACTIVE:
                return job  # it was asked before
            shared = (job.project, "maintainer") in person.projects
            other = f"{person.owner}, a maintainer of {job.project}" if shared else "an admin"
            who = person.owner if person.owner == job.owner else other  # the owner reads the reason
            return self.ledger.change(job, new_state, person.owner, f"{words} {who}", **values)

        return self._repeat(person, name, change)

    def _repeat(self, person: Person, name: str, change: Callable[[Job], Job]) -> Job:
        """Makes a change to a job, again if others change it at the same time."""
        for last in [False] * (AGAIN - 1) + [True]:
            job = self.own_job(person, name)
            try:
                return change(job)
            except ConflictError:
                if last or self.ledger.job(name).version == job.version:
                    raise
        raise AssertionError("unreachable")

    def set_priority(self, person: Person, name: str, priority: int) -> Job:
        """Sets a job's priority. Raises ConflictError if it has ended."""

        def change(job: Job) -> Job:
            if job.state in ENDED:
                raise ConflictError(f"job {name} is {job.state}: its turn is over")
            return self.ledger.set_priority(job, priority, person.owner)

        return self._repeat(person, name, change)

    def add_tag(self, person: Person, name: str, tag: str) -> Job:
        return self._repeat(person, name, lambda job: self.ledger.add_tag(job, tag, person.owner))

    def set_after(self, person: Person, name: str, after: Sequence[str]) -> Job:
        """Sets the jobs that a job comes after.

        Raises:
            UserError: one of them comes after this job, or will not succeed.
            ConflictError: it has started.
        """

        def change(job: Job) -> Job:
            if job.state not in QUEUED:
                raise ConflictError(f"job {name} is {job.state}: it has had its turn")
            for other in after:
                if (state := self.job(person, other).state) in ENDED - {State.SUCCEEDED}:
                    raise UserError(f"after: job {other} is {state}, so {name} would never start")
            seen, ahead = set[str](), list(after)
            while ahead:
                other = ahead.pop()
                if other == name:
                    raise UserError(f"after: job {name} would wait for itself")
                if other not in seen:
                    seen.add(other)
                    ahead += self.job(person, other).after
            return self.ledger.set_after(job, list(dict.fromkeys(after)), person.owner)

        return self._repeat(person, name, change)

    def remove(self, person: Person, name: str) -> None:
        """Removes a job. Raises ConflictError if it has not ended."""
        self.ledger.remove(self.own_job(person, name), person.owner)

    def why(self, person: Person, name: str) -> Why:
        """Returns why a job waits, with the forecast of its start, or what it does instead; see `explain`."""
        job = self.job(person, name)
        pending = self.loop.attempts.pending.get(f"{job.id}-a{job.attempt}")
        if job.state == State.STARTING and pending:
            return Why(kind="queue", text=pending)
        if job.state == State.SUBMITTED:
            return Why(kind="plan", text=self.loop.intake.waits.get(name, "it waits for its plan"))
        if job.state != State.WAITING:
            error = self.error(job)
            where = f"; its log says: {error}" if error else ""
            return Why(kind=job.state, text=f"it does not wait: it is {job.state} ({job.reason}){where}")
        if self.loop.trouble or self.loop.capacity is None or not self.loop.capacity.nodes:
            trouble = self.loop.trouble or "none of its nodes is there yet"
            return Why(kind="cluster", text=f"the cluster does not answer: {trouble}")
        queue, quotas, rules = self.loop.scheduler.snapshot()
        if name not in queue.jobs or queue.jobs[name].active:
            return self.why(person, name)  # it has started in the meantime
        why = explain(name, queue, quotas, self.loop.capacity, self.ledger.now(), rules)
        holders = tuple(replace(holder, owner=person.name_of(holder.owner)) for holder in why.holders)
        if why.earliest is None and (forecast := self.forecaster.view(LIST_PATIENCE, name).forecasts.get(name)):
            return replace(why, holders=holders, earliest=forecast.earliest, latest=forecast.latest)
        return replace(why, holders=holders)

    def error(self, job: Job) -> str:
        """Returns the error in the log of a job that has failed; empty: there is none."""
        if job.state not in (State.FAILED, State.LOST) or not job.attempt:
            return ""
        return as_jobs(error_of(attempt_of(self.loop.home, job.id, job.attempt).log))

    def idle(self, job: Job) -> Spell | None:
        """Returns the spell in which GPUs of a running job idle; None if they work."""
        return idle_spell(self.loop.home, job, self.ledger.now(), self.config.idle)

    def targets(self, job: Job) -> list[str]:
        """Returns who is told of a job: its own targets and its owner's."""
        return list(dict.fromkeys([*job.notify, *self.config.notify.owners.get(job.owner, ())]))

    def changes(self, person: Person, name: str) -> list[schemas.ChangeView]:
        """Returns the changes of a job, as the person may read them.

        Raises UnknownJobError: there is no such job, or the person may not see it.
        """
        self.job(person, name)
        return [schemas.ChangeView.shown(change, person) for change in self.ledger.changes(job=name, limit=10_000)]

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

    def audit_rows(self, person: Person, query: AuditQuery, before: int | None, limit: int) -> Sequence[AuditRow]:
        """Returns rows of the audit, newest first; who is no admin gets their own. Raises UserError as `conditions`."""
        own = query.model_copy(update={"person": self.only(person, query.person)})
        return self.audit.rows(own, before, limit)

    def bill(self, person: Person, owner: str | None) -> list[BillRow]:
        """Returns the losses, the largest first."""
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
            .where(*person.jobs())
        )
        if owner is not None:
            query = query.where(Job.owner == owner)
        with self.ledger.database.read() as session:
            names = ("owner", "job", "cause", "attempts", "seconds", "tokens", "startup", "away")
            rows = [dict(zip(names, row, strict=True)) for row in session.execute(query)]
        return [BillRow.model_validate(row) for row in rows]


def _covering(lines: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """Yields lines that together have every word; names, of which each line has its own, do not count."""
    seen: set[str] = set()
    for line in lines:
        words = {word for word in line if key_of(word) != "name"}
        if not seen or not words <= seen:
            seen |= words | {""}
            yield list(line)
