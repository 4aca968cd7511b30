"""Brings a service's tables to this program's version, by the Alembic migrations beside them."""

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import DatabaseError

from dragoman.model.errors import UserError, reason
from dragoman.services.store.database import Database


@dataclass(frozen=True)
class Migrations:
    """The migrations of one service. Several services may share a database: each counts its versions by itself."""

    versions: Path  # folder
    version_table: str = "alembic_version"  # Alembic's own name


def upgrade(database: Database, migrations: Migrations, revision: str = "head") -> None:
    """Migrates the tables to `revision`, one process at a time; makes those of a new database.

    Raises:
        UserError: the database is of a newer Dragoman.
    """
    if revision == "head" and _is_newest(database, migrations):
        return
    from alembic import command  # takes 0.2 s
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("path_separator", "newline")  # a folder's name may have blanks, commas or colons
    folders = {"script_location": Path(__file__).parent / "migrations", "version_locations": migrations.versions}
    for name, folder in folders.items():
        config.set_main_option(name, str(folder).replace("%", "%%"))
    try:
        with _quiet("alembic"), database.upgrading() as connection:
            config.attributes |= {"connection": connection, "version_table": migrations.version_table}
            command.upgrade(config, revision)
    except CommandError as problem:  # "Can't locate revision"
        raise UserError(
            f"{database.setting}: {database.engine.url} was made by a newer Dragoman ({reason(problem)}); "
            "start that version, or name another database"
        ) from None


def _is_newest(database: Database, migrations: Migrations) -> bool:
    """Returns True if the tables are of the newest migration, whose number begins the name of the last file."""
    newest = max(path.name.partition("_")[0] for path in migrations.versions.glob("[0-9]*.py"))
    try:
        with database.engine.connect() as connection:
            return connection.execute(text(f"SELECT version_num FROM {migrations.version_table}")).scalars().all() == [
                newest
            ]
    except DatabaseError:  # a new database, or one that Alembic's error is to tell of
        return False


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Leaves out a logger's notes during the block."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
