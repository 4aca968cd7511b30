"""Opens the ledger's database with its tables in this program's version."""

import contextlib
import logging
import secrets
from pathlib import Path

from alembic import command
from alembic.config import Config as AlembicConfig
from alembic.util import CommandError
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from model.errors import UserError, reason
from services.jobs.ledger.tables import Meta
from services.store import database as store
from services.store.database import answering

MIGRATIONS = Path(__file__).parent / "migrations"
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
        config = AlembicConfig()
        config.set_main_option("script_location", str(MIGRATIONS))
        level = logging.getLogger("alembic").level
        logging.getLogger("alembic").setLevel(logging.WARNING)
        try:
            with self.upgrading() as connection:
                config.attributes["connection"] = connection
                command.upgrade(config, revision)
        except CommandError as problem:  # "Can't locate revision": the database is of a newer program
            raise UserError(
                f"service.ledger: {self.engine.url} was made by a newer Dragoman "
                f"({reason(problem)}); start that version, or name another ledger"
            ) from None
        finally:
            logging.getLogger("alembic").setLevel(level)
