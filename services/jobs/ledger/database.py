"""Opens the ledger's database with its tables in this program's version."""

import contextlib
import secrets
from pathlib import Path

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from dragoman.services.jobs.ledger.tables import Meta
from dragoman.services.store import database as store
from dragoman.services.store.database import answering
from dragoman.services.store.upgrade import Migrations, upgrade

MIGRATIONS = Migrations(Path(__file__).parent / "migrations" / "versions")
SETTING = "service.ledger"


class Database(store.Database):
    """The ledger's database, with its tables in this program's version."""

    def __init__(self, url: str, password: str | None = None) -> None:
        """Opens it and makes or upgrades its tables. `password` is PostgreSQL's, if the URL has none.

        Raises:
            UserError: the URL names no supported database, or one of a newer Dragoman.
            ServiceError: the database does not answer, or is damaged.
        """
        super().__init__(url, SETTING, password)
        with contextlib.ExitStack() as stack, answering(SETTING):
            stack.callback(self.close)
            self.upgrade()
            with self.write() as session:
                if session.get(Meta, "prefix") is None:
                    session.add(Meta(key="prefix", value=f"j{secrets.token_hex(2)}"))
            with self.read() as session:
                self.prefix: str = session.scalars(select(Meta.value).where(Meta.key == "prefix")).one()
            stack.pop_all()

    def alone(self, session: Session, lock: int) -> bool:
        """Returns True if no other process holds `lock` until this transaction ends; on sqlite `write` ensures it."""
        if self.is_sqlite:
            return True
        return bool(session.scalar(text("SELECT pg_try_advisory_xact_lock(:lock)"), {"lock": lock}))

    def upgrade(self, revision: str = "head") -> None:
        """Migrates the tables to `revision`; one process at a time."""
        upgrade(self, MIGRATIONS, revision)
