"""Submits commands at the times of a cron expression.

The key of a scheduled job names its schedule and its time, so that a service that is killed between the submission and
the note of it, or a second service, makes no second job. Times that passed while no service ran bring one job. A
schedule whose token was revoked or has ended is paused; who resumes it lends it theirs.
"""

import logging
import math
from datetime import UTC, datetime
from typing import Any

from cronsim import CronSim, CronSimError
from sqlalchemy import delete, func, select, update

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.ledger import Ledger, TooManyError
from dragoman.services.jobs.ledger.own_tokens import Rights
from dragoman.services.jobs.ledger.projects import Projects
from dragoman.services.jobs.ledger.tables import Schedule
from dragoman.services.jobs.planning.refusals import check_words
from dragoman.services.jobs.service import schemas
from dragoman.services.jobs.service.targets import check_target
from dragoman.services.jobs.settings import ServiceConfig
from dragoman.services.jobs.states import ENDED

TIME = "@time"  # in a word: 20300131T0800, the time of the submission
MOST = 100  # schedules of an owner
AT_ONCE = 100  # schedules of one look
ENDED_TOKEN = "the token that it was made with was revoked or has ended: it is paused; resume it with a valid one"
logger = logging.getLogger(__name__)


def next_time(every: str, after: float) -> float:
    """Returns the first time of a cron expression after `after`; both are seconds since 1970."""
    try:
        if len(every.split()) != 5:
            raise CronSimError("it has not five fields")
        return next(CronSim(every, datetime.fromtimestamp(after, UTC))).timestamp()
    except CronSimError as problem:
        raise UserError(
            f"jobs.every={every!r}: {problem}; give minute, hour, day, month and day of the week in UTC: '0 3 * * 1-5'"
        ) from None
    except StopIteration:
        raise UserError(f"jobs.every={every!r}: that time never comes") from None


def fill(words: list[str], at: float) -> list[str]:
    """Returns the words with the time in the place of @time."""
    return [word.replace(TIME, datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M")) for word in words]


class Schedules:
    """The schedules of a ledger."""

    def __init__(self, ledger: Ledger, config: ServiceConfig) -> None:
        self.ledger, self.config, self.rights = ledger, config, Rights(ledger)
        self._looked = math.inf  # when it looked last

    def check(self, every: str, verb: str, words: list[str], options: dict[str, Any]) -> list[str]:
        """Returns the words of the first job.

        Raises UserError: an impossible expression, word or target, or a training that would only resume the last one.
        """
        first = fill(words, next_time(every, self.ledger.now()))
        check_words(verb, first)
        for target in options["notify"]:
            check_target(target, self.config.notify)
        if verb == "train" and first == words:
            raise UserError(
                f"jobs.every={every!r}: every training would have the same name and resume the first; "
                f"put {TIME} into it: name=nightly-{TIME}"
            )
        return first

    def add(self, person: Person, every: str, verb: str, words: list[str], options: dict[str, Any]) -> Schedule:
        """Enters a schedule that was checked. Raises UserError if the owner has too many."""
        now, owner, options = self.ledger.now(), person.owner, options | {"token": self.rights.lender(person)}
        schedule = Schedule(owner=owner, every=every, verb=verb, words=words, options=options, created=now, trouble="")
        schedule.due = next_time(every, now)
        with self.ledger.write() as session:
            if (session.scalar(select(func.count()).where(Schedule.owner == owner)) or 0) >= MOST:
                raise UserError(f"{owner} has {MOST} schedules: remove one with dragoman schedules rm ID")
            session.add(schedule)
            session.flush()  # gives it its id
            self.ledger.note(session, owner, "schedule", f"schedule {schedule.id}: {verb} at {every}", owner)
        return schedule

    def all(self, owner: str | None = None) -> list[Schedule]:
        """Returns the schedules, of one owner or of all, oldest first."""
        query = select(Schedule).order_by(Schedule.id)
        return self.ledger.database.all(query if owner is None else query.where(Schedule.owner == owner))

    def get(self, number: int) -> Schedule | None:
        return self.ledger.database.get(Schedule, number)

    def set_active(self, schedule: Schedule, active: bool, person: Person) -> None:
        """Pauses a schedule, or lets it go on from its next time, with the token of who resumes it."""
        values: dict[str, Any] = {"due": None}
        if active:
            options = schedule.options | {"token": self.rights.lender(person)}
            values = {
                "due": schedule.due or next_time(schedule.every, self.ledger.now()),
                "options": options,
                "trouble": "",
            }
        reason = f"schedule {schedule.id}: {'resumed' if active else 'paused'}"
        with self.ledger.noting(person.owner, "schedule", reason, schedule.owner) as session:
            session.execute(update(Schedule).where(Schedule.id == schedule.id).values(**values))

    def remove(self, schedule: Schedule, actor: str) -> None:
        """Removes a schedule; its jobs stay."""
        with self.ledger.noting(actor, "schedule", f"schedule {schedule.id}: removed", schedule.owner) as session:
            session.execute(delete(Schedule).where(Schedule.id == schedule.id))

    def look(self) -> None:
        """Submits the jobs that are due."""
        now = self.ledger.now()
        if now < self._looked:
            self._set_back(now)
        self._looked = now
        query = select(Schedule).where(Schedule.due <= now).order_by(Schedule.due).limit(AT_ONCE)
        schedules = self.ledger.database.all(query)
        for schedule in schedules:
            values: dict[str, Any] = {"due": next_time(schedule.every, now), "trouble": ""}
            try:
                if self.rights.lasts(schedule.options.get("token", ""), schedule.owner):
                    values["job"] = self._submit(schedule, schedule.due or now)
                else:
                    values = {"due": None, "trouble": ENDED_TOKEN}
            except (UserError, TooManyError) as problem:
                values["trouble"] = str(problem) or f"{self.config.waiting} of its owner's jobs have not ended"
                logger.warning("schedule %s brought no job: %s", schedule.id, values["trouble"])
            self._note(schedule, **values)

    def _set_back(self, now: float) -> None:
        """Makes schedules due at their next time: a clock that went ahead and back again has made it a later one."""
        for schedule in self.ledger.database.all(select(Schedule).where(Schedule.due > now)):
            if (due := next_time(schedule.every, now)) < (schedule.due or now):
                self._note(schedule, due=due)

    def _note(self, schedule: Schedule, **values: Any) -> None:
        """Sets columns, unless it was paused or noted by another service in the meantime: that stands."""
        with self.ledger.database.write() as session:
            session.execute(
                update(Schedule).where(Schedule.id == schedule.id, Schedule.due == schedule.due).values(**values)
            )

    def _submit(self, schedule: Schedule, at: float) -> str:
        """Returns the job of this time. Raises UserError if the last one has not ended."""
        key = f"schedule-{schedule.id}-{at:.0f}"
        if schedule.job and self.ledger.states([schedule.job]).get(schedule.job, "succeeded") not in ENDED:
            raise UserError(f"its last job {schedule.job} had not ended")
        options = schemas.Options.model_validate(
            {key: schedule.options[key] for key in schedule.options.keys() - {"token"}}
        )
        if options.project:
            Projects(self.ledger).check_member(options.project, schedule.owner, admin=False)
        words, most = fill(schedule.words, at), self.config.waiting
        return self.ledger.submit(schedule.owner, schedule.verb, words, key=key, most=most, **options.columns()).id
