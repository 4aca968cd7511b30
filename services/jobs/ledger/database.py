"""Opens the ledger's database with its tables in this program's version."""

import contextlib
import secrets
from collections.abc import Iterator

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from dragoman.services.jobs.ledger.asked import ASKED
from dragoman.services.jobs.ledger.tables import Base, Meta
from dragoman.services.store import database as store
from dragoman.services.store.database import answering
from dragoman.services.store.upgrade import Schema, upgrade

SETTING = "service.ledger"


SCHEMA = Schema(Base.metadata, "0021", "alembic_version")


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
