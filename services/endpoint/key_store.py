"""The tables of API keys and of what they have used, in the database that `serve.database` names."""

import contextlib
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import BigInteger, Double, String, delete, make_url, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from dragoman.model.errors import UserError
from dragoman.model.names import check_name
from dragoman.services.http.rates import digest_of
from dragoman.services.store.database import Database, answering
from dragoman.services.store.upgrade import Schema, upgrade

SETTING = "serve.database"


class Tables(DeclarativeBase):
    """The base of the tables."""


SCHEMA = Schema(Tables.metadata, "0002", "endpoint_version")


class StoredKey(Tables):
    """A key and its limits; a stolen database gives no access, because it holds a hash."""

    __tablename__ = "api_keys"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(160), unique=True)
    created: Mapped[float] = mapped_column(Double)  # seconds since 1970
    revoked: Mapped[float | None] = mapped_column(Double)
    characters: Mapped[int | None] = mapped_column(BigInteger)  # a month
    requests: Mapped[int | None]  # a minute


class Used(Tables):
    """A row of use: the characters and requests of a key in a month or a minute."""

    __tablename__ = "api_usage"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    period: Mapped[str] = mapped_column(String(16), primary_key=True)  # 2026-11, or 2026-11-26T17:45
    characters: Mapped[int] = mapped_column(BigInteger)
    requests: Mapped[int] = mapped_column(BigInteger)


USED = select(Used.digest, Used.period, Used.characters, Used.requests)


class Period(NamedTuple):
    """The use of a key in a month or a minute."""

    digest: str
    period: str
    characters: int
    requests: int


class KeyStore:
    """The stored keys. The database is opened when it is first needed; a sqlite file is made with the first key."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._database: Database | None = None

    def there(self) -> bool:
        """Returns False if the database is a sqlite file that does not exist."""
        if self._database is not None:
            return True
        try:
            parsed = make_url(self.url)
        except ArgumentError:
            raise UserError(
                f"{SETTING}: {self.url.partition('://')[0]!r}... is no address of a database, such as sqlite:///FILE"
            ) from None
        return parsed.get_backend_name() != "sqlite" or Path(parsed.database or "").is_file()

    def open(self) -> Database:
        """Returns the database with its tables in this program's version."""
        if self._database is None:
            database = Database(self.url, SETTING)
            with contextlib.ExitStack() as stack:
                stack.callback(database.close)
                with answering(SETTING):
                    upgrade(database, SCHEMA)
                stack.pop_all()
            self._database = database
        return self._database

    @contextlib.contextmanager
    def read(self) -> Iterator[Session]:
        """Yields a transaction that changes nothing."""
        with answering(SETTING), self.open().read() as session:
            yield session

    @contextlib.contextmanager
    def write(self) -> Iterator[Session]:
        """Yields a transaction that is committed if the block ends well."""
        with answering(SETTING), self.open().write() as session:
            yield session

    def add(self, name: str, characters: int | None = None, requests: int | None = None) -> str:
        """Stores a new key and returns its secret, which is not stored."""
        check_name("key", name)
        secret = f"dgk_{secrets.token_urlsafe(32)}"
        row = StoredKey(
            digest=digest_of(secret), name=name, created=time.time(), characters=characters, requests=requests
        )
        try:
            with self.write() as session:
                session.add(row)
        except IntegrityError:
            raise UserError(f"key {name!r}: there is one of that name; revoke it, or choose another name") from None
        return secret

    def revoke(self, name: str) -> None:
        """Ends a key."""
        with self.write() as session:
            valid = (StoredKey.name == name, StoredKey.revoked.is_(None))
            result = session.execute(update(StoredKey).where(*valid).values(revoked=time.time()))
            if result.rowcount != 1:  # type: ignore[attr-defined]  # the result of an UPDATE has it
                raise UserError(f"key {name!r}: there is none that is valid; `dragoman keys list` shows all")

    def all(self) -> list[StoredKey]:
        """Returns all keys, also revoked ones, oldest first."""
        with self.read() as session:
            return list(session.scalars(select(StoredKey).order_by(StoredKey.created)))

    def months(self, digest: str) -> list[Period]:
        """Returns what a key has used in each month, newest first."""
        with self.read() as session:
            periods = session.execute(USED.where(Used.digest == digest).order_by(Used.period.desc()))
            return [Period(*row) for row in periods if len(row.period) == len("2026-11")]

    def exchange(
        self, counted: Sequence[Period], periods: Sequence[str], since: str
    ) -> tuple[list[StoredKey], list[Period]]:
        """Adds what was counted; returns all keys and their use in `periods`. Forgets minutes before `since`."""
        if counted:
            with self.write() as session:
                for period in counted:
                    insert = (sqlite.insert if self.open().is_sqlite else postgresql.insert)(Used).values(
                        **period._asdict()
                    )
                    added = {name: getattr(Used, name) + insert.excluded[name] for name in ("characters", "requests")}
                    session.execute(insert.on_conflict_do_update(index_elements=["digest", "period"], set_=added))
                session.execute(delete(Used).where(Used.period.like("%T%"), Used.period < since))
        with self.read() as session:
            keys = list(session.scalars(select(StoredKey)))
            return keys, [Period(*row) for row in session.execute(USED.where(Used.period.in_(periods)))]

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
