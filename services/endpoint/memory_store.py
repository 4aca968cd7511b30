"""The table of known translations, in the database that `serve.database` names."""

import time
from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import BigInteger, Double, String, Text, UniqueConstraint, delete, func, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.orm import Mapped, mapped_column

from dragoman.model.languages import standard_code
from dragoman.services.endpoint.key_store import KeyStore, Tables
from dragoman.services.http.rates import digest_of
from dragoman.services.texts.known import comparable

AT_ONCE = 500  # rows in a statement; sqlite takes 32,766 values
EVERYBODY = ""  # the owner of what answers every key


class MemoryRow(Tables):
    """A text and its translation. What is stored again replaces what was there."""

    __tablename__ = "translation_memory"
    __table_args__ = (UniqueConstraint("owner", "source", "target", "digest"),)

    id: Mapped[int] = mapped_column(BigInteger().with_variant(sqlite.INTEGER, "sqlite"), primary_key=True)
    owner: Mapped[str] = mapped_column(String(160))  # the name of a key, which alone gets it; empty: everybody
    source: Mapped[str] = mapped_column(String(35))  # languages in BCP 47
    target: Mapped[str] = mapped_column(String(35))
    digest: Mapped[str] = mapped_column(String(64))  # of the text as it is compared
    text: Mapped[str] = mapped_column(Text)
    translation: Mapped[str] = mapped_column(Text)
    origin: Mapped[str] = mapped_column(String(160))  # the file that it came from, or `suggestion`
    changed: Mapped[float] = mapped_column(Double, index=True)  # seconds since 1970


class Unit(NamedTuple):
    """A text with its translation."""

    source: str  # language
    target: str
    text: str
    translation: str


class State(NamedTuple):
    """The number of rows and the time of the last change: they differ once the table has changed."""

    rows: int
    changed: float


class MemoryStore:
    """The stored translations, in the database of the keys."""

    def __init__(self, store: KeyStore) -> None:
        self.store = store

    def there(self) -> bool:
        """Returns False if the database is a sqlite file that does not exist."""
        return self.store.there()

    def put(self, units: Iterable[Unit], origin: str, owner: str = EVERYBODY) -> int:
        """Stores units in one transaction, each once, and returns their number; the last of equal texts stays."""
        rows: dict[tuple[str, str, str], tuple[str, str]] = {}
        for unit in units:
            source, target = standard_code(unit.source), standard_code(unit.target)
            rows[source, target, digest_of(comparable(unit.text))] = unit.text, unit.translation
        waiting = list(rows.items())
        with self.store.write() as session:
            last = session.scalar(select(func.max(MemoryRow.changed))) or 0.0
            changed = max(time.time(), last + 0.001)  # whoever reads what is new sees it, also where a clock went back
            for start in range(0, len(waiting), AT_ONCE):
                texts = [
                    {
                        "owner": owner,
                        "source": source,
                        "target": target,
                        "digest": digest,
                        "text": text,
                        "translation": translation,
                        "origin": origin[:160],
                        "changed": changed,
                    }
                    for (source, target, digest), (text, translation) in waiting[start : start + AT_ONCE]
                ]
                self.store.put(session, MemoryRow, texts, ("owner", "source", "target", "digest"), adds=False)
        return len(waiting)

    def state(self) -> State:
        """Returns the number of rows and the time of the last change."""
        with self.store.read() as session:
            rows, changed = session.execute(select(func.count(), func.max(MemoryRow.changed))).one()
            return State(rows, changed or 0.0)

    def rows(self, since: float = 0.0) -> list[MemoryRow]:
        """Returns all rows that changed at `since` or later, in the order of their change."""
        with self.store.read() as session:
            query = select(MemoryRow).where(MemoryRow.changed >= since).order_by(MemoryRow.changed, MemoryRow.id)
            return list(session.scalars(query))

    def counts(self) -> list[tuple[str, str, str, str, int]]:
        """Returns (source, target, owner, origin, number of units), sorted."""
        columns = (MemoryRow.source, MemoryRow.target, MemoryRow.owner, MemoryRow.origin)
        with self.store.read() as session:
            rows = session.execute(select(*columns, func.count()).group_by(*columns).order_by(*columns))
            return [tuple(row) for row in rows]  # type: ignore[misc]  # five columns

    def clear(self, source: str | None, target: str | None, origin: str | None) -> int:
        """Deletes the units of the pair and origin (None: any), and returns their number."""
        source, target = (code and standard_code(code) for code in (source, target))
        conditions = ((MemoryRow.source, source), (MemoryRow.target, target), (MemoryRow.origin, origin))
        query = delete(MemoryRow).where(*(column == value for column, value in conditions if value is not None))
        with self.store.write() as session:
            return int(session.execute(query).rowcount)  # type: ignore[attr-defined]  # the result of a DELETE has it
