"""Tells people what becomes of their jobs.

A notice is a row of the ledger before it is sent, one for each job, attempt, event and target; of idle GPUs one for
each spell. However often the service is killed, and however many services share the ledger, a delivered notice is not
sent again. One whose answer was lost is tried again under the same id, by which the receiver knows it (Standard
Webhooks, `webhook-id`).
"""

import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from sqlalchemy import Select, String, and_, cast, delete, exists, or_, select, update
from sqlalchemy.orm import Session

from dragoman.model.durations import duration
from dragoman.model.errors import ServiceError, reason
from dragoman.model.plural import plural
from dragoman.model.runs.paths import RELEASE
from dragoman.model.untrusted import read_object
from dragoman.services.jobs.ledger.ledger import SHORT, Ledger, UnknownJobError
from dragoman.services.jobs.ledger.tables import Change, Job, Meta, Notice
from dragoman.services.jobs.service.curves import run_of, score_in, score_text
from dragoman.services.jobs.service.targets import Message, RefusedError, send, shown
from dragoman.services.jobs.service.usage import Spell
from dragoman.services.jobs.settings import Event, NotifyConfig
from dragoman.services.jobs.states import State
from dragoman.services.repeating import Repeating

LOCK = 7_100_116  # advisory lock of writing notices
CURSOR = "noticed"  # key of `meta`: the last change that notices were made of
TICK = 1.0  # seconds between two looks
AT_ONCE = 8  # deliveries
BATCH = 500  # changes, or jobs, of one look
SETTLED = 2.0  # seconds
CHECK_EVERY = 15.0  # seconds between two searches for stuck and late jobs
PAUSES = (5.0, 30.0, 300.0, 1800.0, 7200.0, 28_800.0)  # seconds before each further try; after the last it is given up
KEPT = 30 * 86_400.0  # seconds for which notices stay
ENDS = {State.SUCCEEDED: "succeeded", State.FAILED: "failed", State.LOST: "failed"}
logger = logging.getLogger(__name__)


class Notifier:
    """The notices of one ledger. `pages` is the address of the service's pages."""

    def __init__(
        self, ledger: Ledger, config: NotifyConfig, pages: str, idle: Callable[[Job], Spell | None] = lambda _: None
    ) -> None:
        """`idle` returns the spell in which a job's GPUs idle."""
        self.ledger, self.config, self.pages, self.idle = ledger, config, pages.rstrip("/"), idle
        self._next_check = 0.0
        self.repeating = Repeating("notifier", TICK, lambda: bool(self.look()))

    def stop(self) -> None:
        """Ends the thread; the next service sends the rest."""
        self.repeating.stop(2 * self.config.timeout)

    def look(self) -> int:
        """Makes notices of what has happened, and sends those that are due; returns how many were delivered."""
        self._enter()
        due = self._claim()
        if not due:
            return 0
        with ThreadPoolExecutor(min(AT_ONCE, len(due)), "notice") as pool:
            return sum(pool.map(self._deliver, due))

    def _enter(self) -> None:
        """Writes the notices of what has happened since the last look."""
        checks = self.ledger.now() >= self._next_check
        idle = self._idle() if checks else []  # files are read before the ledger is locked
        with self.ledger.database.write() as session:
            if not self.ledger.database.alone(session, LOCK):
                return
            cursor = session.get(Meta, CURSOR)
            if cursor is None:  # a ledger without notices: tell of what happens from now on
                session.add(Meta(key=CURSOR, value=str(self.ledger.newest_change())))
                return
            query = select(Change).where(Change.id > int(cursor.value)).order_by(Change.id).limit(BATCH)
            if not self.ledger.database.is_sqlite:  # a change of a lower number may be committed later
                query = query.where(Change.at < self.ledger.now() - SETTLED)
            changes = session.scalars(query).all()
            for job, event, attempt, text in [*_told(session, changes), *(self._overdue(session) if checks else ())]:
                self._add(session, job, event, attempt, text)
            for job, spell in idle:
                text = f"leaves {plural(spell.gpus, 'GPU')} idle, for {duration(self.ledger.now() - spell.since)}"
                self._add(session, job, "idle", job.attempt, text, spell.since)
            if changes:
                cursor.value = str(changes[-1].id)
            session.execute(delete(Notice).where(Notice.created < self.ledger.now() - KEPT))

    def _overdue(self, session: Session) -> Iterator[tuple[Job, Event, int, str]]:
        """Yields jobs that wait for long, or run for longer than was promised."""
        now = self.ledger.now()
        self._next_check = now + CHECK_EVERY
        waits = and_(Job.state == State.WAITING, Job.waiting_since < now - self.config.stuck)
        unready = and_(Job.state.in_([State.SUBMITTED, State.STARTING]), Job.changed < now - self.config.stuck)
        for job in session.scalars(self._untold("stuck").where(or_(waits, unready))):
            for_what = {State.SUBMITTED: " for its plan", State.STARTING: " for the cluster to start it"}
            since = job.waiting_since if job.state == State.WAITING else job.changed
            what = f"{duration(now - (since or now))}{for_what.get(State(job.state), '')}"
            yield job, "stuck", job.attempt, f"has waited for {what}: dragoman why {job.id}"
        late = Job.state == State.RUNNING, Job.started + Job.seconds_high < now
        for job in session.scalars(self._untold("forecast").where(*late)):
            ran, promised = duration(now - (job.started or now)), duration(job.seconds_high or 0)
            yield job, "forecast", job.attempt, f"has run for {ran}; at most {promised} were expected"

    def _idle(self) -> list[tuple[Job, Spell]]:
        """Returns running jobs with targets whose GPUs idle."""
        query = self._asked().where(Job.state == State.RUNNING, Job.gpus > 0)
        with self.ledger.database.read() as session:
            idle_jobs = [(job, self.idle(job)) for job in session.scalars(query)]
        return [(job, spell) for job, spell in idle_jobs if spell is not None]

    def _asked(self) -> Select[Job]:
        """Returns the query for jobs with targets."""
        is_wanted = or_(cast(Job.notify, String) != "[]", Job.owner.in_(self.config.owners))
        return select(Job).options(*SHORT).where(is_wanted).limit(BATCH)

    def _untold(self, event: Event) -> Select[Job]:
        """Returns the query for jobs with targets, and without a notice of this event."""
        is_told = exists().where(Notice.job == Job.id, Notice.attempt == Job.attempt, Notice.event == event)
        return self._asked().where(~is_told)

    def _add(self, session: Session, job: Job, event: Event, attempt: int, text: str, spell: float = 0.0) -> None:
        if event not in self.config.events:
            return
        now = self.ledger.now()
        for target in dict.fromkeys([*job.notify, *self.config.owners.get(job.owner, ())]):
            key = {"job": job.id, "attempt": attempt, "event": event, "spell": spell, "target": target}
            if session.scalars(select(Notice.id).filter_by(**key)).first() is None:
                name = job.run.partition(" ")[2].rpartition("/")[2]
                what = f"{job.owner}'s {job.verb} {name}".rstrip()
                values = {"owner": job.owner, "verb": job.verb, "run": job.run, "text": f"{what} ({job.id}) {text}"}
                session.add(Notice(id=f"msg_{secrets.token_hex(12)}", **key, **values, created=now, due=now, tries=0))
        session.flush()

    def _claim(self) -> list[Notice]:
        """Returns the notices that are due. Each counts as tried: another service, or the next one, waits its pause."""
        now, claimed = self.ledger.now(), []
        query = select(Notice).where(Notice.due <= now).order_by(Notice.due).limit(4 * AT_ONCE)
        with self.ledger.database.write() as session:
            for notice in session.scalars(query.with_for_update(skip_locked=True)):
                notice.tries += 1
                notice.due = now + PAUSES[notice.tries - 1] if notice.tries <= len(PAUSES) else None
                claimed.append(notice)
        return claimed

    def _deliver(self, notice: Notice) -> bool:
        try:
            send(notice.target, self._message(notice), self.config)
        except (RefusedError, ServiceError) as problem:
            values = {"error": reason(problem)[:300]}
            last = isinstance(problem, RefusedError) or notice.due is None
            text, end = "job %s: %s was not told that it is %s: %s%s", "; given up" if last else ""
            logger.warning(text, notice.job, shown(notice.target), notice.event, values["error"], end)
            self._set(notice, **values, **({"due": None} if last else {}))
            return False
        self._set(notice, sent=self.ledger.now(), due=None, error="")
        return True

    def _set(self, notice: Notice, **values: object) -> None:
        with self.ledger.database.write() as session:
            session.execute(update(Notice).where(Notice.id == notice.id).values(**values))

    def _message(self, notice: Notice) -> Message:
        link = f"{self.pages}/jobs/{notice.job}"
        when = datetime.fromtimestamp(notice.created, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        data = {
            "job": notice.job,
            "attempt": notice.attempt,
            "owner": notice.owner,
            "verb": notice.verb,
            "run": notice.run,
        }
        event = {"type": f"job.{notice.event}", "timestamp": when, "data": {**data, "text": notice.text, "url": link}}
        name = notice.run.partition(" ")[2].rpartition("/")[2] or notice.verb
        outcome = ", ".join(filter(None, (notice.event, self._score(notice) if notice.event == "succeeded" else "")))
        return Message(notice.id, f"{name}: {outcome} ({notice.job})", notice.text, link, event)

    def _score(self, notice: Notice) -> str:
        """Returns the score of a training that has released a model; empty if there is none."""
        try:
            run = run_of(self.ledger.job(notice.job))
        except UnknownJobError:
            return ""
        return score_text(*score_in(read_object(run / RELEASE))) if run else ""


def _told(session: Session, changes: Sequence[Change]) -> Iterator[tuple[Job, Event, int, str]]:
    """Yields what changes of state tell of: ends, and trainings that make room for another job."""
    for change in changes:
        event = ENDS.get(State(change.after)) if change.action == "state" and change.after else None
        if change.action == "state" and change.after == State.YIELDING and change.actor == "scheduler":
            event = "preempted"
        if event is None:
            continue
        job = session.scalars(select(Job).options(*SHORT).where(Job.id == change.job)).one_or_none()
        if job is not None:
            why = change.reason.removeprefix(f"{change.after}: ")
            state = "makes room" if event == "preempted" else event
            yield job, event, change.attempt or 0, state if why in ("", change.after) else f"{state}: {why}"  # type: ignore[misc]  # an Event
