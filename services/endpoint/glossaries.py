"""Glossaries that users store: terms by pair of languages, in the database that `serve.database` names.

A glossary belongs to the key that made it, and other keys do not see it.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import JSON, BigInteger, ForeignKey, String, Text, func, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.orm import Mapped, Session, mapped_column, relationship
from starlette.exceptions import HTTPException

from dragoman.model.languages import nearest
from dragoman.services.endpoint.key_store import KeyStore, Tables
from dragoman.services.texts.glossary import MOST_TERMS

MOST = 1000  # glossaries of one owner


class GlossaryNotFoundError(HTTPException):
    """404: the owner has no such glossary, or the glossary no dictionary of these languages."""

    def __init__(self, message: str = "Glossary not found") -> None:
        super().__init__(404, message)


class TooManyGlossariesError(HTTPException):
    """400: the owner has the most glossaries or terms already, or the server stores none."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message)


@dataclass(frozen=True)
class Dictionary:
    """The terms of one pair of languages, which are spelled as in BCP 47."""

    source: str
    target: str
    terms: Mapping[str, str]


class Glossary(Tables):
    """A stored glossary."""

    __tablename__ = "glossaries"
    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    owner: Mapped[str] = mapped_column(String(64), index=True)  # the digest of a key; empty: nobody's
    name: Mapped[str] = mapped_column(Text)
    created: Mapped[str] = mapped_column(String(40))  # ISO 8601
    dictionaries: Mapped[list["StoredDictionary"]] = relationship(
        cascade="all, delete-orphan", order_by="StoredDictionary.id", lazy="selectin"
    )

    def find(self, source: str, target: str) -> "StoredDictionary":
        """Returns the dictionary of these languages or of their nearest relatives.

        Raises GlossaryNotFoundError: there is none.
        """
        for dictionary in self.dictionaries:
            if nearest(source, (dictionary.source,)) and nearest(target, (dictionary.target,)):
                return dictionary
        raise GlossaryNotFoundError(f"Glossary has no dictionary from {source} to {target}")


class StoredDictionary(Tables):
    """A stored dictionary; its terms are read only where they are used."""

    __tablename__ = "glossary_dictionaries"
    id: Mapped[int] = mapped_column(BigInteger().with_variant(sqlite.INTEGER, "sqlite"), primary_key=True)
    glossary: Mapped[str] = mapped_column(ForeignKey("glossaries.id"), index=True)
    source: Mapped[str] = mapped_column(String(35))
    target: Mapped[str] = mapped_column(String(35))
    entries: Mapped[int]
    terms: Mapped[dict[str, str]] = mapped_column(JSON, deferred=True)

    @classmethod
    def of(cls, dictionary: Dictionary) -> "StoredDictionary":
        return cls(
            source=dictionary.source,
            target=dictionary.target,
            entries=len(dictionary.terms),
            terms=dict(dictionary.terms),
        )


class Glossaries:
    """The store, in the database of the keys; None: nothing can be stored."""

    def __init__(self, store: KeyStore | None = None, most: int = MOST) -> None:
        self.store = store
        self.most = most

    def create(self, owner: str, name: str, dictionaries: Sequence[Dictionary]) -> Glossary:
        """Stores and returns a new glossary. Raises TooManyGlossariesError: the owner has the most already."""
        with self._write() as session:
            if (session.scalar(select(func.count()).where(Glossary.owner == owner)) or 0) >= self.most:
                raise TooManyGlossariesError(f"There are {self.most} glossaries already: delete one first")
            created = datetime.now(UTC).isoformat(timespec="milliseconds")
            glossary = Glossary(id=str(uuid.uuid4()), owner=owner, name=name, created=created)
            glossary.dictionaries = [StoredDictionary.of(dictionary) for dictionary in dictionaries]
            session.add(glossary)
            return glossary

    def list(self, owner: str) -> Sequence[Glossary]:
        """Returns the owner's glossaries, the oldest first."""
        with self._read() as session:
            if session is None:
                return []
            return session.scalars(select(Glossary).where(Glossary.owner == owner).order_by(Glossary.created)).all()

    def get(self, owner: str, id_: str) -> Glossary:
        """Returns one glossary. Raises GlossaryNotFoundError: the owner has none with this id."""
        with self._read() as session:
            return _glossary(session, owner, id_)

    def terms(self, owner: str, id_: str, source: str, target: str) -> dict[str, str]:
        """Returns the terms of a glossary's dictionary.

        Raises GlossaryNotFoundError: there is no such glossary or dictionary.
        """
        with self._read() as session:
            return _glossary(session, owner, id_).find(source, target).terms

    def change(
        self, owner: str, id_: str, *, name: str = "", add: Sequence[Dictionary] = (), put: Sequence[Dictionary] = ()
    ) -> Glossary:
        """Renames a glossary, adds terms to its dictionaries, or puts whole ones; returns it.

        Raises:
            GlossaryNotFoundError: the owner has none with this id.
            TooManyGlossariesError: a dictionary would have too many terms.
        """
        with self._write() as session:
            glossary = _glossary(session, owner, id_)
            glossary.name = name or glossary.name
            for dictionary in (*add, *put):
                try:
                    stored = glossary.find(dictionary.source, dictionary.target)
                except GlossaryNotFoundError:
                    glossary.dictionaries.append(StoredDictionary.of(dictionary))
                else:
                    stored.terms = dict(dictionary.terms) if dictionary in put else {**stored.terms, **dictionary.terms}
                    stored.entries = len(stored.terms)
                    if stored.entries > MOST_TERMS:
                        raise TooManyGlossariesError(f"A dictionary has at most {MOST_TERMS:,} terms")
            return glossary

    def delete(self, owner: str, id_: str) -> None:
        """Deletes a glossary. Raises GlossaryNotFoundError: the owner has none with this id."""
        with self._write() as session:
            session.delete(_glossary(session, owner, id_))

    def delete_dictionary(self, owner: str, id_: str, source: str, target: str) -> None:
        """Deletes one dictionary of a glossary.

        Raises GlossaryNotFoundError: there is no such glossary or dictionary.
        """
        with self._write() as session:
            glossary = _glossary(session, owner, id_)
            glossary.dictionaries.remove(glossary.find(source, target))

    @contextmanager
    def _write(self) -> Iterator[Session]:
        """Yields a transaction that is committed if the block ends well, and rolled back otherwise."""
        if self.store is None:
            raise TooManyGlossariesError("This server stores no glossaries: its setting serve.database is null")
        with self.store.write() as session:
            yield session

    @contextmanager
    def _read(self) -> Iterator[Session | None]:
        """Yields a transaction that changes nothing; None where nothing was ever stored."""
        if self.store is None or not self.store.there():
            yield None
            return
        with self.store.read() as session:
            yield session


def _glossary(session: Session | None, owner: str, id_: str) -> Glossary:
    try:
        id_ = str(uuid.UUID(id_))
    except ValueError:
        raise GlossaryNotFoundError from None
    glossary = None if session is None else session.get(Glossary, id_)
    if glossary is None or glossary.owner != owner:
        raise GlossaryNotFoundError
    return glossary
