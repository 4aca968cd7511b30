"""The audit: one row for each change that somebody asked the service for, and for each refusal.

The audit trail (`changes`) says what became of jobs. This table says who asked, from where, and what was answered. It
holds no bodies, no queries of addresses and no tokens.
"""

import re
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Annotated

from pydantic import Field
from sqlalchemy import ColumnElement, delete, or_, select

from dragoman.services.jobs.bodies import Cursor, Moment, Owner, Strict
from dragoman.services.jobs.ledger.filters import within
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.tables import AuditRow

STATUS = r"^[1-5](\d\d|xx)$"
SECRET = re.compile(r"dgm_[\w-]+")  # a token that somebody put into an address
LONGEST = {"person": 160, "token": 160, "address": 64, "method": 8, "resource": 300, "detail": 2000}


class AuditQuery(Strict):
    """The wanted rows of the audit; `what` is a method, or a part of the address or of the detail."""

    person: Owner | None = None
    what: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    status: Annotated[str, Field(pattern=STATUS)] | None = None  # 403, or 4xx
    since: Moment | None = None
    until: Moment | None = None
    cursor: Cursor | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50

    def conditions(self, now: float) -> list[ColumnElement[bool]]:
        """Returns the conditions. Raises UserError for an impossible moment."""
        conditions = within(self, AuditRow.__table__.c.at, now)
        if self.person is not None:
            conditions.append(AuditRow.person == self.person)
        if self.what is not None:
            parts = (column.contains(self.what, autoescape=True) for column in (AuditRow.resource, AuditRow.detail))
            conditions.append(or_(AuditRow.method == self.what.upper(), *parts))
        if self.status is not None:
            low = int(self.status.replace("xx", "00"))
            conditions.append(AuditRow.status.between(low, low + 99 if self.status.endswith("xx") else low))
        return conditions


class Audit:
    """The audit of a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._guard = threading.Lock()
        self._coming: list[tuple[AuditRow, Future[None]]] = []  # rows that the next transaction writes

    def add(self, status: int, **values: str) -> None:
        """Enters a row; long texts are cut, and what cannot be shown becomes `?`. Rows of one moment share a write."""
        texts = {key: _shown(values.get(key, ""))[:most] for key, most in LONGEST.items()}
        written: Future[None] = Future()
        with self._guard:
            self._coming.append((AuditRow(at=self.ledger.now(), status=status, **texts), written))
            first = len(self._coming) == 1
        if first:
            self._write()
        written.result()

    def _write(self) -> None:
        rows: list[tuple[AuditRow, Future[None]]] = []
        try:
            with self.ledger.database.write(lasting=True) as session:
                with self._guard:
                    rows, self._coming = self._coming, []
                session.add_all(row for row, _ in rows)
        except Exception as problem:
            with self._guard:
                if not rows:  # there was no transaction
                    rows, self._coming = self._coming, []
            for _, written in rows:
                written.set_exception(problem)
            return
        for _, written in rows:
            written.set_result(None)

    def rows(self, filters: AuditQuery, before: int | None = None, limit: int = 50) -> Sequence[AuditRow]:
        """Returns rows, newest first; `before` is the last page's last id."""
        query = select(AuditRow).where(*filters.conditions(self.ledger.now())).order_by(AuditRow.id.desc()).limit(limit)
        if before is not None:
            query = query.where(AuditRow.id < before)
        return self.ledger.database.all(query)

    def forget(self, until: float, most: int) -> int:
        """Deletes at most so many rows from before `until`, oldest first; returns their number."""
        old = select(AuditRow.id).where(AuditRow.at < until).order_by(AuditRow.id).limit(most).scalar_subquery()
        with self.ledger.database.write() as session:
            done = session.execute(delete(AuditRow).where(AuditRow.id.in_(old)))
        return int(done.rowcount)  # type: ignore[attr-defined]  # the result of a DELETE


def _shown(text: str) -> str:
    """Returns a text without tokens and without letters that cannot be shown."""
    text = SECRET.sub("dgm_...", text)
    return "".join(letter if letter.isprintable() else "?" for letter in text)
