"""The ledger's tables. Times are seconds since 1970 (UTC); the order of events is that of `changes.id`."""

from typing import Any

from sqlalchemy import JSON, Double, ForeignKey, Index, MetaData, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

CONVENTION = {  # so that migrations can name what they change
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """What all tables have in common."""

    metadata = MetaData(naming_convention=CONVENTION)
    type_annotation_map = {list[str]: JSON, list[int]: JSON, dict[str, Any]: JSON, float: Double}  # noqa: RUF012  # read by SQLAlchemy


class Meta(Base):
    """Facts of the ledger itself; `prefix` begins the ids of its jobs, so that no two ledgers give the same id."""

    __tablename__ = "meta"

    key: Mapped[str] = mapped_column(String(32), primary_key=True)
    value: Mapped[str] = mapped_column(Text)


class Job(Base):
    """A verb and its overrides, what they need, and where they have come to."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index("ix_jobs_state_seq_version", "state", "seq", "version"),
        Index("ix_jobs_owner_seq", "owner", "seq"),
        Index("ix_jobs_owner_state_seq", "owner", "state", "seq"),
        Index("ix_jobs_run", "run"),
        Index("ix_jobs_owner_key", "owner", "key", unique=True),
    )

    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(40), unique=True)
    owner: Mapped[str] = mapped_column(String(160))
    admin: Mapped[bool] = mapped_column(default=False)  # whether it was handed in with an admin's rights
    key: Mapped[str | None] = mapped_column(String(64))  # the client's own: the same key again is the same job
    verb: Mapped[str] = mapped_column(String(32))
    words: Mapped[list[str]]
    run: Mapped[str] = mapped_column(String(160), default="")  # its name; empty until it is planned
    priority: Mapped[int] = mapped_column(default=0)
    after: Mapped[list[str]]
    follows: Mapped[bool] = mapped_column(default=False)  # whether `after` names any
    retries: Mapped[int] = mapped_column(default=0)  # failures that are tried again
    max_seconds: Mapped[float | None]  # of running, over all attempts
    deadline: Mapped[float | None]
    trace: Mapped[str | None] = mapped_column(String(55))  # W3C traceparent of whoever submitted it

    state: Mapped[str] = mapped_column(String(16))
    version: Mapped[int] = mapped_column(default=1)  # counts the changes: what compare-and-set compares
    reason: Mapped[str] = mapped_column(Text, default="")
    submitted: Mapped[float]
    queued: Mapped[int] = mapped_column(default=0)  # its place by age; that of `seq`, and kept when it yields
    changed: Mapped[float]
    waiting_since: Mapped[float | None]  # when it was put into the queue for its present turn

    plan: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    choices: Mapped[list[int]]  # numbers of workers that it can run with, smallest first; empty until it is planned
    cpus: Mapped[float] = mapped_column(default=0.0)  # of one worker
    gpus: Mapped[float] = mapped_column(default=0.0)
    seconds_low: Mapped[float | None]  # expected running time, of what is left
    seconds_high: Mapped[float | None]

    attempt: Mapped[int] = mapped_column(default=0)
    workers: Mapped[int] = mapped_column(default=0)  # of the attempt that runs
    started: Mapped[float | None]  # the attempt that runs
    failures: Mapped[int] = mapped_column(default=0)  # attempts that failed, and
    losses: Mapped[int] = mapped_column(default=0)  # those that vanished, since the owner asked last
    spent: Mapped[float] = mapped_column(default=0.0)  # seconds of ended attempts


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
    cause: Mapped[str | None] = mapped_column(String(64))  # what ended it, for the bill of faults
    code: Mapped[int | None]  # exit code
    incarnation: Mapped[str | None] = mapped_column(String(160))  # the life of the cluster that it was started in
    message: Mapped[str] = mapped_column(Text, default="")
    lost_seconds: Mapped[float] = mapped_column(default=0.0)  # trained and not kept
    lost_tokens: Mapped[int] = mapped_column(default=0)
    kept_step: Mapped[int] = mapped_column(default=0)  # where the next attempt goes on
    kept_seconds: Mapped[float] = mapped_column(default=0.0)  # of training until then, over all attempts
    startup: Mapped[float] = mapped_column(default=0.0)  # seconds until the first step of a training; all, without one


class Change(Base):
    """The audit trail: a row a change, never altered (the database refuses) and kept when its job is removed."""

    __tablename__ = "changes"
    __table_args__ = (Index("ix_changes_job_id", "job", "id"),)

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


class Token(Base):
    """A bearer token, as its sha256: a stolen ledger lets nobody in."""

    __tablename__ = "tokens"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(160), unique=True)
    owner: Mapped[str] = mapped_column(String(160))
    role: Mapped[str] = mapped_column(String(16))
    created: Mapped[float]
    revoked: Mapped[float | None]


class Model(Base):
    """Whose the name of a registered model is."""

    __tablename__ = "models"

    name: Mapped[str] = mapped_column(String(160), primary_key=True)
    owner: Mapped[str] = mapped_column(String(160))
    since: Mapped[float]


class Quota(Base):
    """What an owner's jobs may hold together; null: no bound."""

    __tablename__ = "quotas"

    owner: Mapped[str] = mapped_column(String(160), primary_key=True)
    cpus: Mapped[float | None]
    gpus: Mapped[float | None]


class Measurement(Base):
    """What an ended job took beside what was predicted, so that the next prediction is better."""

    __tablename__ = "measurements"
    __table_args__ = (Index("ix_measurements_cluster_shape", "cluster", "shape"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    at: Mapped[float]
    job: Mapped[str] = mapped_column(String(40))
    cluster: Mapped[str] = mapped_column(String(160))
    shape: Mapped[str] = mapped_column(String(64))  # hash of what the time of a step depends on
    verb: Mapped[str] = mapped_column(String(32))
    steps: Mapped[int]
    flops: Mapped[float]  # a step's
    workers: Mapped[int]
    training: Mapped[float]  # seconds of steps
    around: Mapped[float]  # seconds of everything else: starting, evaluating, releasing
    predicted: Mapped[float | None]
    low: Mapped[float | None]  # the ends of the range that was promised
    high: Mapped[float | None]
    tokens: Mapped[float] = mapped_column(default=0.0)  # a step's; 0, as the next three: not known
    width: Mapped[int] = mapped_column(default=0)
    layers: Mapped[int] = mapped_column(default=0)
    architecture: Mapped[str] = mapped_column(String(64), default="")


class Place(Base):
    """A folder that jobs write, by its real path, and whose it is; see `places`."""

    __tablename__ = "places"

    # compared byte by byte, as folders are
    path: Mapped[str] = mapped_column(Text().with_variant(Text(collation="C"), "postgresql"), primary_key=True)
    owner: Mapped[str] = mapped_column(String(160))
    job: Mapped[str] = mapped_column(String(40))  # the newest of the owner that writes it
