"""Tells the operator's webhook what becomes of jobs, signed as Standard Webhooks says (standardwebhooks.com).

A notice is a row of the ledger before it is sent, one for each job, attempt and event. However often the service is
killed, and however many services share the ledger, a delivered notice is not sent again. One whose answer was lost is
tried again under the same `webhook-id`, by which the receiver knows it.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import logging
import secrets
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import httpx
from sqlalchemy import and_, delete, exists, or_, select, update
from sqlalchemy.orm import Session

from dragoman.model.durations import duration
from dragoman.model.errors import UserError
from dragoman.model.files import read_secret
from dragoman.services.jobs.ledger.database import Change, Job, Meta, Notice
from dragoman.services.jobs.ledger.ledger import SHORT, Ledger
from dragoman.services.jobs.settings import WebhookConfig
from dragoman.services.jobs.states import State
from dragoman.services.repeating import Repeating

LOCK = 7_100_116  # advisory lock of writing notices
CURSOR = "noticed"  # key of `meta`: the last change that notices were made of
TICK = 1.0  # seconds between two looks
BATCH = 500  # changes, or jobs, of one look
AT_ONCE = 32  # deliveries
SETTLED = 2.0  # seconds
CHECK_EVERY = 15.0  # seconds between two searches for stuck jobs
PAUSES = (5.0, 30.0, 300.0, 1800.0, 7200.0, 28_800.0)  # seconds before each further try; after the last it is given up
KEPT = 30 * 86_400.0  # seconds for which notices stay
SECRET = "whsec_"
SHORTEST = 24  # bytes of a key, as Standard Webhooks wants
PASSING = (408, 425, 429)  # refusals of 4xx that another try may not meet
ENDS = {State.SUCCEEDED: "succeeded", State.FAILED: "failed", State.LOST: "failed"}
logger = logging.getLogger(__name__)


def read_key(path: str) -> bytes:
    """Returns the key that signs."""
    try:
        text = read_secret("service.webhook.secret", path)
        key = base64.b64decode(text.removeprefix(SECRET), validate=True)
    except binascii.Error as problem:
        raise UserError(f"service.webhook.secret: {path} holds no {SECRET}BASE64 ({problem})") from None
    if len(key) < SHORTEST:
        raise UserError(f"service.webhook.secret: {path}: {len(key)} bytes; at least {SHORTEST} are needed")
    return key


def signature(key: bytes, identity: str, at: int, body: bytes) -> str:
    """Returns the header webhook-signature."""
    digest = hmac.new(key, f"{identity}.{at}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


class Webhook:
    """The notices of one ledger. `pages` is the address of the service's pages."""

    def __init__(self, ledger: Ledger, config: WebhookConfig, pages: str) -> None:
        self.ledger, self.config, self.pages = ledger, config, pages.rstrip("/")
        self._next_check = 0.0
        self.repeating = Repeating("webhook", TICK, lambda: bool(self.look()))

    def stop(self) -> None:
        """Ends the thread; the next service sends the rest."""
        self.repeating.stop(2 * self.config.timeout)

    def look(self) -> int:
        """Makes notices of what has happened, and sends those that are due; returns how many were delivered."""
        self._enter()
        due = self._claim()
        return sum(asyncio.run(self._deliver_all(due))) if due else 0

    def _enter(self) -> None:
        """Writes the notices of what has happened since the last look."""
        now = self.ledger.now()
        with self.ledger.database.write() as session:
            if not self.ledger.database.alone(session, LOCK):
                return
            cursor = session.get(Meta, CURSOR)
            if cursor is None:  # a ledger without notices: tell of what happens from now on
                session.add(Meta(key=CURSOR, value=str(self.ledger.newest_change())))
                return
            query = select(Change).where(Change.id > int(cursor.value)).order_by(Change.id).limit(BATCH)
            if not self.ledger.database.is_sqlite:  # a change of a lower number may be committed later
                query = query.where(Change.at < now - SETTLED)
            changes = session.scalars(query).all()
            for job, event, attempt, text in [*_events(session, changes), *self._stuck(session)]:
                self._add(session, job, event, attempt, text)
            if changes:
                cursor.value = str(changes[-1].id)
            session.execute(delete(Notice).where(Notice.created < now - KEPT))

    def _stuck(self, session: Session) -> Iterator[tuple[Job, str, int, str]]:
        """Yields jobs that have waited for long."""
        now = self.ledger.now()
        if now < self._next_check:
            return
        self._next_check = now + CHECK_EVERY
        waits = and_(Job.state == State.WAITING, Job.waiting_since < now - self.config.stuck)
        unready = and_(Job.state.in_([State.SUBMITTED, State.STARTING]), Job.changed < now - self.config.stuck)
        is_told = exists().where(Notice.job == Job.id, Notice.attempt == Job.attempt, Notice.event == "stuck")
        for job in session.scalars(select(Job).options(*SHORT).where(or_(waits, unready), ~is_told).limit(BATCH)):
            for_what = {State.SUBMITTED: " for its plan", State.STARTING: " for the cluster to start it"}
            since = job.waiting_since if job.state == State.WAITING else job.changed
            what = f"{duration(now - (since or now))}{for_what.get(State(job.state), '')}"
            yield job, "stuck", job.attempt, f"has waited for {what}: dragoman why {job.id}"

    def _add(self, session: Session, job: Job, event: str, attempt: int, text: str) -> None:
        key = {"job": job.id, "attempt": attempt, "event": event}
        if session.scalars(select(Notice.id).filter_by(**key)).first() is None:
            now = self.ledger.now()
            values = {"owner": job.owner, "verb": job.verb, "name": job.name}
            text = f"{job.owner}'s {' '.join(filter(None, (job.verb, job.name)))} ({job.id}) {text}"
            session.add(Notice(id=f"msg_{secrets.token_hex(12)}", **key, **values, text=text, created=now, due=now))
            session.flush()

    def _claim(self) -> list[Notice]:
        """Returns the notices that are due. Each counts as tried: another service, or the next one, waits its pause."""
        now, claimed = self.ledger.now(), []
        query = select(Notice).where(Notice.due <= now).order_by(Notice.due).limit(AT_ONCE)
        with self.ledger.database.write() as session:
            for notice in session.scalars(query.with_for_update(skip_locked=True)):
                notice.tries += 1
                notice.due = now + PAUSES[notice.tries - 1] if notice.tries <= len(PAUSES) else None
                claimed.append(notice)
        return claimed

    async def _deliver_all(self, due: Sequence[Notice]) -> list[bool]:
        async with httpx.AsyncClient(timeout=None, trust_env=False, follow_redirects=False) as http:
            return list(await asyncio.gather(*(self._deliver(http, notice) for notice in due)))

    async def _deliver(self, http: httpx.AsyncClient, notice: Notice) -> bool:
        """Sends a notice, all of it within one deadline; returns True if it was taken."""
        body = self._body(notice)
        at = int(time.time())
        headers = {"Content-Type": "application/json", "webhook-id": notice.id, "webhook-timestamp": str(at)}
        try:
            headers["webhook-signature"] = signature(read_key(str(self.config.secret)), notice.id, at, body)
            async with (
                asyncio.timeout(self.config.timeout),
                http.stream("POST", str(self.config.url), content=body, headers=headers) as answer,
            ):
                code = answer.status_code
            error, last = f"HTTP {code}", 300 <= code < 500 and code not in PASSING
        except TimeoutError:
            code, error, last = 0, f"no answer within {self.config.timeout:g} s", False
        except Exception as problem:  # whatever it is, others' deliveries go on
            code, error, last = 0, str(problem) or type(problem).__name__, False
        if 200 <= code < 300:
            self._set(notice, sent=self.ledger.now(), due=None, error="")
            return True
        last = last or notice.due is None
        logger.warning("webhook: %s of job %s: %s%s", notice.event, notice.job, error, "; given up" if last else "")
        self._set(notice, error=error[:300], **({"due": None} if last else {}))
        return False

    def _set(self, notice: Notice, **values: object) -> None:
        with self.ledger.database.write() as session:
            session.execute(update(Notice).where(Notice.id == notice.id).values(**values))

    def _body(self, notice: Notice) -> bytes:
        when = datetime.fromtimestamp(notice.created, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        data = {name: getattr(notice, name) for name in ("job", "attempt", "owner", "verb", "name", "text")}
        data["url"] = f"{self.pages}/jobs/{notice.job}"
        return json.dumps({"type": f"job.{notice.event}", "timestamp": when, "data": data}).encode()


def _events(session: Session, changes: Sequence[Change]) -> Iterator[tuple[Job, str, int, str]]:
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
            yield job, event, change.attempt or 0, state if why in ("", change.after) else f"{state}: {why}"
