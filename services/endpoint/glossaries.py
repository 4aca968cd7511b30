"""Glossaries that users store: terms by pair of languages, in one SQLite file of the endpoint's state folder.

A glossary belongs to the key that made it, and other keys do not see it. The file is made with the first glossary.
"""

import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from sqlalchemy import JSON, Engine, ForeignKey, StaticPool, create_engine, func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from model.languages import nearest

FILE = "glossaries.db"
MOST = 1000  # glossaries of one owner


class GlossaryNotFoundError(Exception):
    """The owner has no such glossary, or the glossary no dictionary of these languages."""


class TooManyGlossariesError(Exception):
    """The owner has the most glossaries already."""


@dataclass(frozen=True)
class Dictionary:
    """The terms of one pair of languages, which are spelled as in BCP 47."""

    source: str
    target: str
    terms: Mapping[str, str]


class Table(DeclarativeBase):
    """The base of the tables."""


class Glossary(Table):
    """A stored glossary."""

    __tablename__ = "glossaries"
    id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str] = mapped_column(index=True)
    name: Mapped[str]
    created: Mapped[str]  # ISO 8601
    dictionaries: Mapped[list["StoredDictionary"]] = relationship(
        cascade="all, delete-orphan", order_by="StoredDictionary.id", lazy="selectin"
    )

    def find(self, source: str, target: str) -> "StoredDictionary":
        """Returns the dictionary of these languages or of their nearest relatives.

        Raises:
            GlossaryNotFoundError: there is none.
        """
        for one in self.dictionaries:
            if nearest(source, (one.source,)) and nearest(target, (one.target,)):
                return one
        raise GlossaryNotFoundError(f"Glossary has no dictionary from {source} to {target}")


class StoredDictionary(Table):
    """A stored dictionary; its terms are read only where they are used."""

    __tablename__ = "dictionaries"
    id: Mapped[int] = mapped_column(primary_key=True)
    glossary: Mapped[str] = mapped_column(ForeignKey("glossaries.id"), index=True)
    source: Mapped[str]
    target: Mapped[str]
    entries: Mapped[int]
    terms: Mapped[dict[str, str]] = mapped_column(JSON, deferred=True)

    @classmethod
    def of(cls, one: Dictionary) -> "StoredDictionary":
        return cls(source=one.source, target=one.target, entries=len(one.terms), terms=dict(one.terms))


class Glossaries:
    """The store. `folder` is the endpoint's state folder; None keeps glossaries in memory."""

    def __init__(self, folder: Path | None = None, most: int = MOST) -> None:
        self.folder = folder
        self.most = most
        self._lock = threading.Lock()  # what is changed is read first

    def create(self, owner: str, name: str, dictionaries: Sequence[Dictionary]) -> Glossary:
        """Stores and returns a new glossary.

        Raises:
            TooManyGlossariesError: the owner has the most already.
        """
        with self._open() as session:
            if (session.scalar(select(func.count()).where(Glossary.owner == owner)) or 0) >= self.most:
                raise TooManyGlossariesError(f"There are {self.most} glossaries already: delete one first")
            created = datetime.now(UTC).isoformat(timespec="milliseconds")
            glossary = Glossary(id=str(uuid.uuid4()), owner=owner, name=name, created=created)
            glossary.dictionaries = [StoredDictionary.of(one) for one in dictionaries]
            session.add(glossary)
            return glossary

    def list(self, owner: str) -> Sequence[Glossary]:
        """Returns the owner's glossaries, the oldest first."""
        with self._open() as session:
            return session.scalars(select(Glossary).where(Glossary.owner == owner).order_by(Glossary.created)).all()

    def get(self, owner: str, id_: str) -> Glossary:
        """Returns one glossary.

        Raises:
            GlossaryNotFoundError: the owner has none with this id.
        """
        with self._open() as session:
            return _glossary(session, owner, id_)

    def terms(self, owner: str, id_: str, source: str, target: str) -> dict[str, str]:
        """Returns the terms of a glossary's dictionary.

        Raises:
            GlossaryNotFoundError: there is no such glossary or dictionary.
        """
        with self._open() as session:
            return _glossary(session, owner, id_).find(source, target).terms

    def change(
        self, owner: str, id_: str, *, name: str = "", add: Sequence[Dictionary] = (), put: Sequence[Dictionary] = ()
    ) -> Glossary:
        """Renames a glossary, adds terms to its dictionaries, or puts whole ones; returns it.

        Raises:
            GlossaryNotFoundError: the owner has none with this id.
        """
        with self._open() as session:
            glossary = _glossary(session, owner, id_)
            glossary.name = name or glossary.name
            for one in (*add, *put):
                try:
                    stored = glossary.find(one.source, one.target)
                except GlossaryNotFoundError:
                    glossary.dictionaries.append(StoredDictionary.of(one))
                else:
                    stored.terms = dict(one.terms) if one in put else {**stored.terms, **one.terms}
                    stored.entries = len(stored.terms)
            return glossary

    def delete(self, owner: str, id_: str) -> None:
        """Deletes a glossary.

        Raises:
            GlossaryNotFoundError: the owner has none with this id.
        """
        with self._open() as session:
            session.delete(_glossary(session, owner, id_))

    def delete_dictionary(self, owner: str, id_: str, source: str, target: str) -> None:
        """Deletes one dictionary of a glossary.

        Raises:
            GlossaryNotFoundError: there is no such glossary or dictionary.
        """
        with self._open() as session:
            glossary = _glossary(session, owner, id_)
            glossary.dictionaries.remove(glossary.find(source, target))

    @contextmanager
    def _open(self) -> Iterator[Session]:
        """Yields a transaction that is committed if the block ends well, and rolled back otherwise."""
        with self._lock, Session(self._engine, expire_on_commit=False) as session, session.begin():
            yield session

    @cached_property
    def _engine(self) -> Engine:
        if self.folder is None:
            engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            engine = create_engine(f"sqlite:///{self.folder / FILE}")
        Table.metadata.create_all(engine)
        return engine


def _glossary(session: Session, owner: str, id_: str) -> Glossary:
    glossary = session.get(Glossary, id_)
    if glossary is None or glossary.owner != owner:
        raise GlossaryNotFoundError("Glossary not found")
    return glossary
