"""Opens a database: sqlite in a file by default, PostgreSQL for more than one machine.

On sqlite a writing transaction begins with BEGIN IMMEDIATE, so that nobody changes what it has read. On PostgreSQL
compare-and-set guards rows, and an advisory lock guards work that only one process may do at a time.
"""

import contextlib
import os
import sqlite3
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Select, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError, ProgrammingError
from sqlalchemy.orm import Session

from dragoman.model.errors import ServiceError, UserError, reason
from dragoman.model.files import PART

URGENT = 4  # turns, of which one at least is no urgent one
BUSY = 30.0  # seconds that a writer waits for another
CONNECTIONS = 45  # kept open; more are opened and closed
# KiB of the file that each sqlite connection caches. The default of 2,000 came to 80 MiB in 40 connections that read
# pages of jobs, and made no read faster, because the system caches the file too.
CACHE = 512
DAMAGED = "its file is damaged: restore it from a backup"
UPGRADING = 7_100_114  # advisory lock for changing the tables
DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
T = TypeVar("T")


class Database:
    """A database and its transactions. Messages begin with the setting that named it."""

    def __init__(self, url: str, setting: str, password: str | None = None) -> None:
        """Opens it; a missing sqlite file is made. `password` is PostgreSQL's, if the URL has none."""
        self.setting = setting
        self.engine = _engine(url, setting, password)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        self.writing = self.engine.execution_options(writes=True)
        # sqlite has one writer, and a busy one makes others sleep longer and longer: our threads take turns here
        self._turns = Turns() if self.is_sqlite else None

    @contextlib.contextmanager
    def read(self) -> Iterator[Session]:
        """Yields a transaction that sees one state of the database and changes nothing."""
        with Session(self.engine, expire_on_commit=False) as session:
            yield session

    def all(self, query: Select[T]) -> list[T]:
        """Returns what a query finds."""
        with self.read() as session:
            return list(session.scalars(query))

    def first(self, query: Select[T]) -> T | None:
        """Returns the first that a query finds; None if it finds nothing."""
        with self.read() as session:
            return session.scalars(query).first()

    def get(self, kind: type[T], key: object) -> T | None:
        """Returns a row by its primary key; None if there is none."""
        with self.read() as session:
            return session.get(kind, key)

    @contextlib.contextmanager
    def write(self, lasting: bool = True, urgent: bool = False) -> Iterator[Session]:
        """Yields a transaction that is committed if the block ends well, and rolled back otherwise.

        On sqlite one that is not `lasting` does not wait for the disk: it outlives the process at once, and a loss of
        power from the next lasting one on, which the disk gets after it. PostgreSQL always waits: its server may end
        between the two, and what this process takes for written would be lost. `urgent`: somebody waits for it.
        """
        engine = self.writing if lasting else self.writing.execution_options(synced=False)
        turn = self._turns.take(urgent) if self._turns else contextlib.nullcontext()
        with turn, Session(engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextlib.contextmanager
    def upgrading(self) -> Iterator[Connection]:
        """Yields a transaction that changes tables; one process at a time."""
        with self.writing.begin() as connection:
            if not self.is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": UPGRADING})
            yield connection

    def close(self) -> None:
        self.engine.dispose()


class Turns:
    """A lock that threads get in the order in which they came; a plain one goes to whoever has just freed it.

    Urgent ones come first, but of URGENT turns one is another's, if any waits.
    """

    def __init__(self) -> None:
        self._guard, self._held, self._count = threading.Lock(), False, 0
        self._urgent: deque[threading.Lock] = deque()
        self._others: deque[threading.Lock] = deque()

    @contextlib.contextmanager
    def take(self, urgent: bool) -> Iterator[None]:
        """Holds the lock."""
        mine = threading.Lock()
        mine.acquire()
        with self._guard:
            if self._held:
                (self._urgent if urgent else self._others).append(mine)
            else:
                self._held = True
                mine.release()
        mine.acquire()  # until the thread before hands it over
        try:
            yield
        finally:
            with self._guard:
                self._count += 1
                first, second = self._urgent, self._others
                waiting = second if second and (not first or self._count % URGENT == 0) else first
                if waiting:
                    waiting.popleft().release()
                else:
                    self._held = False


@contextlib.contextmanager
def answering(setting: str) -> Iterator[None]:
    """Raises ServiceError if the database does not answer or is damaged, without its password."""
    try:
        yield
    except DatabaseError as problem:
        if not isinstance(problem, OperationalError | ProgrammingError) and type(problem) is not DatabaseError:
            raise  # a fault of the program: only sqlite has plain ones, for a file that is no longer a database
        why = reason(problem)
        hint = f"; {DAMAGED}" if "malformed" in why or "not a database" in why else ""
        raise ServiceError(f"{setting}: the database cannot be used ({why}{hint})") from None


def _engine(url: str, setting: str, password: str | None) -> Engine:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise UserError(f"{setting}: {url.partition('://')[0]!r}... is no URL of a database") from None
    backend = parsed.drivername.partition("+")[0]
    if backend not in DRIVERS:
        raise UserError(f"{setting}: {backend} is not known. Choices: sqlite:///FILE, postgresql://HOST/NAME")
    if backend == "sqlite":
        if parsed.database is None:
            raise UserError(f"{setting}: sqlite needs a file, such as sqlite:////srv/dragoman/ledger.db")
        if not Path(parsed.database).exists():
            _make_sqlite(Path(parsed.database))
        # a connection for each thread that answers requests: opening one takes longer than most queries
        engine = create_engine(parsed, connect_args={"timeout": BUSY}, pool_size=CONNECTIONS, max_overflow=20)
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    # pre-ping: the next query finds a restarted database without an error
    parsed = parsed.set(drivername=DRIVERS[backend], password=parsed.password or password)
    return create_engine(parsed, pool_pre_ping=True, pool_size=20, max_overflow=30)


def _make_sqlite(file: Path) -> None:
    """Makes an empty database that keeps a write-ahead log, for its owner alone, in one step.

    Where several switch one new file to such a log, sqlite refuses all but one at once ("database is locked").
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError, sqlite3.Error):  # sqlite says what is wrong when it opens the file
        descriptor, draft = tempfile.mkstemp(prefix=f"{PART}{file.name}-", dir=file.parent)
        os.close(descriptor)  # before the file has its name: closing it later would free the locks of our connections
        try:
            with contextlib.closing(sqlite3.connect(draft)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
            try:
                os.link(draft, file)  # of several the first wins, and all open it
            except OSError:  # some file systems have no hard links
                file.touch(0o600, exist_ok=False)
        finally:
            Path(draft).unlink()


def _set_up_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin below, not in the driver
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"cache_size=-{CACHE}"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if not options.get("writes", False):
        connection.exec_driver_sql("BEGIN")
        return
    level = "FULL" if options.get("synced", True) else "NORMAL"
    if connection.info.get("synchronous", "FULL") != level:
        connection.exec_driver_sql(f"PRAGMA synchronous={level}")
        connection.info["synchronous"] = level
    connection.exec_driver_sql("BEGIN IMMEDIATE")
