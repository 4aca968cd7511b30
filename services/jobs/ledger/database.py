"""The ledger's tables, and its database, which has them in this program's version.

Times are seconds since 1970 (UTC); the order of events is that of `changes.id`.
"""

import contextlib
import secrets
from collections.abc import Iterator
from typing import Annotated, Any

from sqlalchemy import DDL, JSON, Double, ForeignKey, Index, MetaData, String, Text, event, false, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from dragoman.services.jobs.ledger.asked import ASKED
from dragoman.services.store import database as store
from dragoman.services.store.database import answering
from dragoman.services.store.upgrade import Schema, upgrade

SETTING = "service.ledger"
CONVENTION = {  # so that an upgrade can name what it changes
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


Count = Annotated[int, mapped_column(default=0, server_default="0")]
Amount = Annotated[float, mapped_column(Double, default=0.0, server_default="0")]


class Base(DeclarativeBase):
    """The base of all tables."""

    metadata = MetaData(naming_convention=CONVENTION)
    type_annotation_map = {list[str]: JSON, list[int]: JSON, dict[str, Any]: JSON, float: Double}  # noqa: RUF012  # read by SQLAlchemy


class Meta(Base):
    """Facts about the ledger itself; `prefix` begins the ids of its jobs, so that no two ledgers share an id."""

    __tablename__ = "meta"

    key: Mapped[str] = mapped_column(String(32), primary_key=True)
    value: Mapped[str] = mapped_column(Text)


class Job(Base):
    """A command with its overrides, its needs and its state."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index("ix_jobs_state_seq_version", "state", "seq", "version"),
        Index("ix_jobs_owner_seq", "owner", "seq"),
        Index("ix_jobs_owner_state_seq", "owner", "state", "seq"),
        Index("ix_jobs_name", "name"),
        Index("ix_jobs_owner_key", "owner", "key", unique=True),
        {"sqlite_autoincrement": True},  # the number of a removed job is never given again
    )

    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(40), unique=True)
    owner: Mapped[str] = mapped_column(String(160))
    admin: Mapped[bool] = mapped_column(default=False, server_default=false())  # submitted with an admin's rights
    token: Mapped[str | None] = mapped_column(String(64))  # hash of what lends them; empty: nobody was asked
    key: Mapped[str | None] = mapped_column(String(64))  # from the client: the same key again returns the same job
    verb: Mapped[str] = mapped_column(String(32))
    words: Mapped[list[str]]
    name: Mapped[str] = mapped_column(String(160), default="")  # of its run or its shards; empty: it has none
    run: Mapped[str] = mapped_column(Text, default="")  # what it alone may write; empty until it is planned
    model: Mapped[str] = mapped_column(String(160), default="", server_default="")  # that it changes; empty: none
    tags: Mapped[list[str]] = mapped_column(server_default="[]")  # of its owner, to find it by
    priority: Mapped[Count]
    after: Mapped[list[str]]
    follows: Mapped[bool] = mapped_column(default=False)  # True if `after` names any
    retries: Mapped[Count]  # failures to try again
    max_seconds: Mapped[float | None]  # running time over all attempts

    state: Mapped[str] = mapped_column(String(16))
    version: Mapped[int] = mapped_column(default=1)  # number of changes, for compare-and-set
    reason: Mapped[str] = mapped_column(Text, default="")
    submitted: Mapped[float]
    queued: Mapped[Count]  # its order by age; equal to `seq`, and kept when it yields
    changed: Mapped[float]
    waiting_since: Mapped[float | None]  # start of its present wait in the queue

    plan: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    choices: Mapped[list[int]]  # possible numbers of workers, smallest first; empty until it is planned
    cpus: Mapped[Amount]  # per worker
    gpus: Mapped[Amount]
    seconds: Mapped[float | None]  # expected running time of the rest

    attempt: Mapped[Count]
    workers: Mapped[Count]  # of the running attempt
    started: Mapped[float | None]  # of the running attempt
    failures: Mapped[Count]  # failed attempts, and
    losses: Mapped[Count]  # lost ones, since the owner's last action
    spent: Mapped[Amount]  # seconds of ended attempts
    metric: Mapped[str] = mapped_column(String(64), default="", server_default="")  # the measure of what it released,
    score: Mapped[float | None]  # and its value


class Attempt(Base):
    """One start of a job. Its submission id at the executor is JOB-aNUMBER."""

    __tablename__ = "attempts"
    __table_args__ = (Index("ix_attempts_ended", "ended"),)

    job: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    workers: Mapped[int]
    decided: Mapped[float]
    started: Mapped[float | None]
    ended: Mapped[float | None]
    outcome: Mapped[str | None] = mapped_column(String(16))  # succeeded, yielded, stopped, failed, lost
    cause: Mapped[str | None] = mapped_column(String(64))  # the reason of its end
    code: Mapped[int | None]  # exit code
    incarnation: Mapped[str | None] = mapped_column(String(160))  # the cluster's incarnation in which it started
    message: Mapped[str] = mapped_column(Text, default="")
    kept_step: Mapped[Count]  # step of the last checkpoint, where the next attempt resumes
    kept_seconds: Mapped[Amount]  # training time until then, over all attempts


class Change(Base):
    """The record of changes: one row per change, never altered (the database refuses), kept when its job is removed."""

    __tablename__ = "changes"
    __table_args__ = (Index("ix_changes_job_id", "job", "id"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    at: Mapped[float]
    actor: Mapped[str] = mapped_column(String(160))
    action: Mapped[str] = mapped_column(String(32))  # state, priority, remove, token, quota, model
    job: Mapped[str | None] = mapped_column(String(40))
    owner: Mapped[str | None] = mapped_column(String(160))
    before: Mapped[str | None] = mapped_column(String(160))
    after: Mapped[str | None] = mapped_column(String(160))
    attempt: Mapped[int | None]
    reason: Mapped[str] = mapped_column(Text, default="")


class Notice(Base):
    """A message to the webhook about a job; see `service/webhook.py`. It outlives the job."""

    __tablename__ = "notices"
    __table_args__ = (
        Index("uq_notices_job", "job", "attempt", "event", unique=True),
        Index("ix_notices_due", "due"),
    )

    id: Mapped[str] = mapped_column(String(40), primary_key=True)  # the same for every try
    job: Mapped[str] = mapped_column(String(40))
    attempt: Mapped[int]
    event: Mapped[str] = mapped_column(String(16))
    owner: Mapped[str] = mapped_column(String(160))
    verb: Mapped[str] = mapped_column(String(32))
    name: Mapped[str] = mapped_column(String(160))
    text: Mapped[str] = mapped_column(Text)
    created: Mapped[float]
    due: Mapped[float | None]  # the next try; null: delivered, or given up
    tries: Mapped[Count]
    sent: Mapped[float | None]
    error: Mapped[str] = mapped_column(Text, default="")  # of the last try


class Token(Base):
    """A bearer token, as its sha256, so that a stolen ledger gives no access."""

    __tablename__ = "tokens"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(160), unique=True)
    owner: Mapped[str] = mapped_column(String(160))
    role: Mapped[str] = mapped_column(String(16))
    created: Mapped[float]
    revoked: Mapped[float | None]
    expires: Mapped[float | None]  # null: it has no end
    used: Mapped[float | None]  # the last request, to the minute


class Quota(Base):
    """The limits of the jobs of an owner together; null: no limit."""

    __tablename__ = "quotas"

    owner: Mapped[str] = mapped_column(String(160), primary_key=True)
    cpus: Mapped[float | None]
    gpus: Mapped[float | None]
    jobs: Mapped[int | None]  # that run at once


class Measurement(Base):
    """The speed of an ended job, by which the next ones' time is expected."""

    __tablename__ = "measurements"
    __table_args__ = (Index("ix_measurements_cluster_shape", "cluster", "shape"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    at: Mapped[float]
    job: Mapped[str] = mapped_column(String(40))
    cluster: Mapped[str] = mapped_column(String(160))
    shape: Mapped[str] = mapped_column(String(64))  # hash of everything that a step's time depends on
    verb: Mapped[str] = mapped_column(String(32))
    steps: Mapped[int]
    flops: Mapped[float]  # per step
    workers: Mapped[int]
    training: Mapped[float]  # seconds of steps
    around: Mapped[float]  # seconds of the rest: starting, evaluating, releasing


def _refuse(table: str, actions: str) -> None:
    """Makes the database itself refuse changes of a table, from its first moment."""
    refusal = f"the {table} are append-only"
    made = [
        (
            "sqlite",
            f"CREATE TRIGGER {table}_refuse_{action.lower()} BEFORE {action} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{refusal}'); END",
        )
        for action in actions.split(" OR ")
        if action != "TRUNCATE"
    ]
    function = f"{table}_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '{refusal}'; END $$"
    trigger = f"{table}_refuse BEFORE {actions} ON {table} FOR EACH STATEMENT EXECUTE FUNCTION {table}_refuse()"
    made += [("postgresql", f"CREATE OR REPLACE FUNCTION {function}"), ("postgresql", f"CREATE TRIGGER {trigger}")]
    for dialect, statement in made:
        ddl = DDL(statement)  # type: ignore[no-untyped-call]
        event.listen(Base.metadata.tables[table], "after_create", ddl.execute_if(dialect=dialect))


_refuse("changes", "UPDATE OR DELETE OR TRUNCATE")


SCHEMA = Schema(Base.metadata, "0022", "alembic_version")


class Database(store.Database):
    """The ledger's database, with its tables in this program's version."""

    def __init__(self, url: str, password: str | None = None) -> None:
        """Opens it and makes or upgrades its tables. `password` is PostgreSQL's, if the URL has none."""
        super().__init__(url, SETTING, password)
        with contextlib.ExitStack() as stack, answering(SETTING):
            stack.callback(self.close)
            upgrade(self, SCHEMA)
            with self.write() as session:
                if session.get(Meta, "prefix") is None:
                    session.add(Meta(key="prefix", value=f"j{secrets.token_hex(2)}"))
            with self.read() as session:
                self.prefix: str = session.scalars(select(Meta.value).where(Meta.key == "prefix")).one()
            stack.pop_all()

    @contextlib.contextmanager
    def write(self, lasting: bool = True, urgent: bool | None = None) -> Iterator[Session]:
        """Yields a transaction as the store's own. Those of requests are urgent: the loop comes between them."""
        with super().write(lasting, ASKED.get() is not None if urgent is None else urgent) as session:
            yield session

    def alone(self, session: Session, lock: int) -> bool:
        """Returns True if no other process holds `lock` until this transaction ends; on sqlite `write` ensures it."""
        if self.is_sqlite:
            return True
        return bool(session.scalar(text("SELECT pg_try_advisory_xact_lock(:lock)"), {"lock": lock}))
