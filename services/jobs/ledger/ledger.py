"""Reads and writes jobs.

Every change of state is a compare-and-set with time, actor and reason, and adds a row to the record of changes in the
same transaction. What the loop finds out anew after a loss of power does not wait for the disk."""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypedDict, TypeVarTuple, Unpack

from sqlalchemy import ColumnElement, Row, Select, delete, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import InstrumentedAttribute, Session, defer, make_transient_to_detached
from sqlalchemy.sql.base import ExecutableOption

from dragoman.conf.again import key_of
from dragoman.services.jobs.ledger import statements
from dragoman.services.jobs.ledger.asked import tell_change
from dragoman.services.jobs.ledger.database import Attempt, Change, Database, Job
from dragoman.services.jobs.ledger.filters import JobQuery
from dragoman.services.jobs.ledger.statements import JOBS, NEWEST, oldest
from dragoman.services.jobs.states import ENDED, MOVES, State

PASS = 7_100_115  # advisory lock of a scheduler's pass
AT_ONCE = 500  # values per query
NOTED = "noted"  # key of a session for the number of its last row in the record of changes, and
TOLD = "told"  # for its rows as texts
NAMES = ("name", "registry.name", "promote.version", "promote.force")  # keys of a submission that the access log names
SHORT = (defer(Job.plan, raiseload=True),)  # a plan is larger than the rest of a job
REST = [column.name for column in JOBS.columns if column.name != "plan"]


class ConflictError(Exception):
    """Another process has changed the job in the meantime, so the decision about it no longer holds."""


class UnknownJobError(KeyError):
    """The ledger has no such job."""


class TooManyError(Exception):
    """The owner has too many unfinished jobs, so no more are accepted."""


class Options(TypedDict, total=False):
    """The columns that say how a job is queued."""

    priority: int
    name: str
    tags: list[str]
    retries: int
    max_seconds: float | None
    admin: bool
    token: str


Columns = TypeVarTuple("Columns")
OF_ATTEMPT = ("kept_step", "kept_seconds")


class Ledger:
    """The jobs of a database. `now` is the clock; `changed` is called after each commit of this process."""

    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        self.database = database
        self.now = now
        self.changed: Callable[[], None] = lambda: None
        self._learning = threading.Lock()
        self.newest = self.newest_change()  # number of the last change; waiting requests compare with it

    def look(self) -> None:
        """Learns what other services have changed in the meantime."""
        self._learn(self.newest_change())

    @contextlib.contextmanager
    def write(self, lasting: bool = True) -> Iterator[Session]:
        """Yields a transaction as the database's own; once it is committed, announces the changes."""
        with self.database.write(lasting) as session:
            yield session
        if NOTED in session.info:
            self._learn(session.info[NOTED])
            for text in session.info[TOLD]:
                tell_change(text)
            self.changed()

    @contextlib.contextmanager
    def noting(self, actor: str, action: str, reason: str, owner: str | None = None) -> Iterator[Session]:
        """Yields a transaction of changes that are none of a job, and adds a row to the record of changes with them."""
        with self.write() as session:
            yield session
            self.note(session, actor, action, reason, owner)

    def note(self, session: Session, actor: str, action: str, reason: str, owner: str | None = None) -> None:
        """Adds a row to the record of changes that is no change of a job."""
        row = {"at": self.now(), "actor": actor, "action": action, "owner": owner, "reason": reason}
        _add(session, row, reason)

    def _learn(self, newest: int) -> None:
        with self._learning:  # threads may report late
            self.newest = max(self.newest, newest)

    def submit(
        self,
        owner: str,
        verb: str,
        words: Sequence[str],
        *,
        after: Sequence[str] = (),
        key: str | None = None,
        most: int | None = None,
        **options: Unpack[Options],
    ) -> Job:
        """Enters a job. The same `key` of the same owner returns the job that was entered with it.

        Raises:
            UnknownJobError: `after` names an unknown job.
            TooManyError: `most` of the owner's jobs are unfinished. (PostgreSQL counts those committed before.)
        """
        now = self.now()
        values: dict[str, Any] = {"tags": [], "choices": [], **options}
        values |= {"owner": owner, "verb": verb, "words": list(words), "key": key}
        values |= {"after": list(after), "follows": bool(after)}
        values |= {"state": State.SUBMITTED, "submitted": now, "changed": now}
        values["id"] = f"{self.database.prefix}-{time.time_ns():x}"  # until it has its number
        try:
            with self.write() as session:
                if key is not None and (earlier := _with_key(session, owner, key)) is not None:
                    return earlier
                if most is not None and (session.scalar(statements.UNFINISHED, {"whose": owner}) or 0) >= most:
                    raise TooManyError
                for other in after:
                    _get(session, other, SHORT)
                entered: Any = session.execute(statements.ENTER, values)
                seq = int(entered.inserted_primary_key[0])
                own = {"id": f"{self.database.prefix}-{seq}", "queued": seq}
                session.execute(statements.NUMBER, {"entered": seq, **own})
                job = Job(**{**entered.last_inserted_params(), **own, "seq": seq})
                _note(session, now, owner, job, None, State.SUBMITTED, "submitted")
                return job
        except IntegrityError:  # another request entered the same key at this moment
            with self.database.read() as session:
                if key is None or (earlier := _with_key(session, owner, key)) is None:
                    raise
                return earlier

    def change(self, job: Job, state: State, actor: str, reason: str, **values: Any) -> Job:
        """Runs `move` in its own transaction. The returned job has no plan, here and elsewhere."""
        with self.write() as session:
            return self.move(session, job, state, actor, reason, **values)

    def move(self, session: Session, job: Job, state: State, actor: str, reason: str, **values: Any) -> Job:
        """Changes the state of `job`, as it was read, to `state`, and sets other columns with it.

        Raises ConflictError: the job has changed since it was read.
        """
        before = State(job.state)
        if state not in MOVES[before]:
            raise ConflictError(f"job {job.id} is {before} and cannot become {state}")
        now = self.now()
        if state == State.WAITING:
            values["waiting_since"] = now
        moved = self._set(session, job, state=str(state), reason=reason, changed=now, **values)
        _note(session, now, actor, moved, before, state, reason)
        return moved

    def _set(self, session: Session, job: Job, **values: Any) -> Job:
        """Sets these columns and returns the new job, provided that its version is unchanged."""
        read = {"read_seq": job.seq, "read_state": job.state, "read_version": job.version}
        done: Any = session.execute(statements.SET, {**read, **values})
        if done.rowcount != 1:
            raise ConflictError(f"job {job.id} has changed in the meantime")
        return _with(job, version=job.version + 1, **values)

    def begin(self, session: Session, job: Job, workers: int, actor: str, reason: str) -> Job:
        """Gives a waiting job its next attempt: its number is taken from now on, whatever happens to this process."""
        number, now = job.attempt + 1, self.now()
        moved = self.move(session, job, State.STARTING, actor, reason, attempt=number, workers=workers, started=now)
        session.execute(statements.BEGIN, {"job": job.id, "number": number, "workers": workers, "decided": now})
        return moved

    def end(
        self, job: Job, state: State, outcome: str, cause: str, reason: str, code: int | None = None, **values: Any
    ) -> Job:
        """Ends the running attempt of `job`, and with it the job or its present turn (`state` is waiting).

        Raises ConflictError: the job has changed since it was read.
        """
        now = self.now()
        kept = {name: values.pop(name) for name in OF_ATTEMPT if name in values}
        with self.write(lasting=False) as session:
            took = max(0.0, now - (job.started or now))
            ended = {"ended": now, "outcome": outcome, "cause": cause, "code": code, "message": reason}
            set_attempt(session, job, **ended, **kept)
            spent = job.spent + took
            return self.move(session, job, state, "service", reason, started=None, workers=0, spent=spent, **values)

    def mark_started(self, job: Job) -> Job:
        """Records that its processes run. Raises ConflictError: the job has changed since it was read."""
        with self.write(lasting=False) as session:
            now = self.now()
            set_attempt(session, job, started=now)
            return self.move(session, job, State.RUNNING, "service", f"attempt {job.attempt} runs", started=now)

    def set_priority(self, job: Job, priority: int, actor: str) -> Job:
        """Raises ConflictError if the job has changed since it was read."""
        return self._alter(job, actor, "priority", "", job.priority, priority, priority=priority)

    def set_after(self, job: Job, after: list[str], actor: str) -> Job:
        """Sets the jobs that a job comes after. Raises ConflictError if it has changed since it was read."""
        said = f"comes after {', '.join(after) or 'none'}"
        return self._alter(job, actor, "after", said, after=after, follows=bool(after))

    def _alter(
        self, job: Job, actor: str, action: str, reason: str, old: object = None, new: object = None, **values: Any
    ) -> Job:
        """Sets columns other than the state, with a row in the record of changes."""
        with self.write() as session:
            moved = self._set(session, job, **values)
            _note(session, self.now(), actor, job, old, new, reason, action)
            return moved

    def remove(self, job: Job, actor: str, reason: str = "") -> None:
        """Deletes an ended job; the record of changes keeps its rows.

        Raises ConflictError: it has not ended, or has changed since it was read.
        """
        if job.state not in ENDED:
            raise ConflictError(f"job {job.id} is {job.state}: stop it first")
        with self.write() as session:
            session.execute(delete(Attempt).where(Attempt.job == job.id))
            statement = delete(Job).where(Job.seq == job.seq, Job.version == job.version)
            if session.execute(statement).rowcount != 1:  # type: ignore[attr-defined]  # as above
                raise ConflictError(f"job {job.id} has changed in the meantime")
            _note(session, self.now(), actor, job, job.state, None, reason, action="remove")

    def job(self, name: str) -> Job:
        """Raises UnknownJobError if no job has that id."""
        with self.database.read() as session:
            return _get(session, name)

    def jobs(
        self,
        states: Collection[str] = (),
        limit: int | None = None,
        ascending: bool = False,
        plans: bool = False,
        each: int | None = None,
    ) -> list[Job]:
        """Returns jobs by age, newest first. With `plans` a job includes its plan. `each`: the oldest of every owner,
        so many."""
        query = select(Job).order_by(Job.seq if ascending else Job.seq.desc()).limit(limit)
        if each is not None:
            query = query.where(Job.seq.in_(oldest(states, each)))
        if not plans:
            query = query.options(*SHORT)
        if states:
            query = query.where(Job.state.in_(sorted(states)))
        return self.database.all(query)

    def rows(
        self,
        columns: Sequence[str],
        filters: JobQuery,
        cursor: int | None = None,
        limit: int | None = None,
        seen: Sequence[ColumnElement[bool]] = (),
    ) -> tuple[Sequence[Row[Any]], int | None]:
        """Returns these columns of the wanted jobs, without mapped objects, and the cursor of the next ones.

        `seen`: the conditions of the jobs that whoever asks may see, here and in `counts`."""
        conditions = (*seen, *filters.conditions(self.now()))
        query = select(*(JOBS.c[name] for name in columns)).where(*conditions).order_by(*filters.order())
        if cursor is not None and filters.by_age:
            query = query.where(JOBS.c.seq < cursor if filters.descending else JOBS.c.seq > cursor)
        with self.database.read() as session:
            rows_read = session.execute(query.offset(None if filters.by_age else cursor).limit(limit)).all()
        if limit is None or len(rows_read) < limit:
            return rows_read, None
        return rows_read, rows_read[-1].seq if filters.by_age else (cursor or 0) + limit

    def counts(self, filters: JobQuery | None = None, seen: Sequence[ColumnElement[bool]] = ()) -> dict[str, int]:
        """Returns the number of jobs in each state; of the wanted ones, whatever their state."""
        query = select(JOBS.c.state, func.count()).group_by(JOBS.c.state)
        if filters is not None:
            query = query.where(*seen, *filters.conditions(self.now(), state=False))
        with self.database.read() as session:
            return {str(state): count for state, count in session.execute(query)}

    def states(self, names: Sequence[str]) -> dict[str, str]:
        """Returns id -> state for those of `names` that exist."""
        with self.database.read() as session:
            return {str(name): str(state) for name, state in rows_of(session, select(Job.id, Job.state), Job.id, names)}

    def following(self) -> list[Job]:
        """Returns waiting jobs that come after others."""
        query = select(Job).options(*SHORT).where(Job.state == State.WAITING, Job.follows)
        return self.database.all(query)

    def attempts(self, name: str) -> list[Attempt]:
        return self.database.all(select(Attempt).where(Attempt.job == name).order_by(Attempt.number))

    def changes(
        self, after: int = 0, job: str | None = None, owners: Sequence[str] = (), limit: int = 1000
    ) -> list[Change]:
        """Returns the record of changes from an id on, oldest first: all of it, or the part of some owners."""
        query = select(Change).where(Change.id > after).order_by(Change.id).limit(limit)
        if job is not None:
            query = query.where(Change.job == job)
        if owners:
            query = query.where(Change.owner.in_(owners))
        return self.database.all(query)

    def newest_change(self) -> int:
        """Returns the id of the last row of the record of changes; 0 if it is empty."""
        return self.database.first(NEWEST) or 0


def set_attempt(session: Session, job: Job, **values: Any) -> None:
    """Sets columns of a job's newest attempt."""
    session.execute(statements.SET_ATTEMPT, {"of": job.id, "nth": job.attempt, **values})


def rows_of(
    session: Session, query: Select[*Columns], column: InstrumentedAttribute[Any], values: Sequence[Any]
) -> Iterator[Row[*Columns]]:
    """Yields a query's rows that have one of these values; a database has a limit of values in one statement."""
    for start in range(0, len(values), AT_ONCE):
        yield from session.execute(query.where(column.in_(values[start : start + AT_ONCE])))


def _with_key(session: Session, owner: str, key: str) -> Job | None:
    return session.scalars(select(Job).where(Job.owner == owner, Job.key == key)).one_or_none()


def _with(job: Job, **values: Any) -> Job:
    """Returns the job with these columns, as a new read would give it, but without its plan."""
    changed = Job(**{name: values[name] if name in values else getattr(job, name) for name in REST})
    make_transient_to_detached(changed)
    return changed


def _get(session: Session, name: str, options: Sequence[ExecutableOption] = ()) -> Job:
    job = session.scalars(select(Job).where(Job.id == name).options(*options)).one_or_none()
    if job is None:
        raise UnknownJobError(name)
    return job


def _note(
    session: Session, at: float, actor: str, job: Job, before: object, after: object, reason: str, action: str = "state"
) -> None:
    """Adds a row about a job to the record of changes."""
    states = {"before": None if before is None else str(before), "after": None if after is None else str(after)}
    states |= {"actor": actor, "action": action, "job": job.id, "owner": job.owner, "reason": reason}
    _add(session, {"at": at, **states, "attempt": job.attempt or None}, _text(job, before, after, reason, action))


def _text(job: Job, before: object, after: object, reason: str, action: str) -> str:
    """Returns a change of a job in a few words; of a submission those that say what it will change."""
    if action == "state" and before is None:
        return " ".join([f"{job.id} {after}:", job.verb, *(word for word in job.words if key_of(word) in NAMES)])
    if action in ("state", "remove"):
        return f"{job.id} {after or 'removed'}"
    return f"{job.id} {action} {reason if after is None else after}"


def _add(session: Session, row: Mapping[str, Any], text: str) -> None:
    """Adds a row at once, so that its number gives its order; `text` is for the access log."""
    added: Any = session.execute(statements.NOTE, row)
    session.info[NOTED] = int(added.inserted_primary_key[0])
    session.info.setdefault(TOLD, []).append(text)
