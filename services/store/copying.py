"""Copies whole databases: sqlite to a file while others write to it, servers by their rows in one transaction."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, MetaData, delete, func, insert, inspect, make_url, select, text

from dragoman.model.errors import ServiceError, UserError
from dragoman.services.store.database import DRIVERS, Database, answering

AT_ONCE = 1000  # rows
HEADER = b"SQLite format 3\0"


def is_server(url: str) -> bool:
    """Returns True if the URL names a server, False if it names a sqlite file."""
    return not url.startswith("sqlite")


def with_driver(url: str) -> str:
    """Returns the URL with the driver that this program uses, as other programs need it."""
    parsed = make_url(url)
    return parsed.set(drivername=DRIVERS[parsed.get_backend_name()]).render_as_string(hide_password=False)


def sqlite_file(url: str) -> Path:
    """Returns the absolute path of a sqlite database's file."""
    return Path(make_url(url).database or "").absolute()


def copy_file(path: Path, target: Path) -> None:
    """Copies a sqlite database with all that is committed, by sqlite's online backup; writers go on.

    Raises ServiceError: the database is damaged.
    """
    try:
        with _opened(f"{path.absolute().as_uri()}?mode=ro") as source, _opened(target.as_uri()) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")  # as `close_log`
            (verdict,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as problem:
        raise ServiceError(f"{path}: cannot be copied ({problem})") from None
    if verdict != "ok":
        raise ServiceError(f"{path}: the database is damaged ({' '.join(verdict.split())})")


def close_log(path: Path) -> None:
    """Puts the whole sqlite database into its one file, without a log beside it."""
    with _opened(path.absolute().as_uri()) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")


def revision(path: Path, table: str) -> str | None:
    """Returns the version of a sqlite file's tables; None if it has no `table` of versions."""
    with _opened(f"{path.absolute().as_uri()}?mode=ro") as connection, contextlib.suppress(sqlite3.OperationalError):
        row = connection.execute(f'SELECT version_num FROM "{table}"').fetchone()
        return None if row is None else str(row[0])
    return None


def count_rows(path: Path, tables: tuple[str, ...]) -> dict[str, int]:
    """Returns table -> number of rows of a sqlite file, for those of `tables` that it has."""
    counts = {}
    with _opened(f"{path.absolute().as_uri()}?mode=ro") as connection:
        for table in tables:
            with contextlib.suppress(sqlite3.OperationalError):
                counts[table] = int(connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])
    return counts


def move_paths(path: Path, columns: tuple[str, ...], old: str, new: str) -> None:
    """Replaces the folder `old` by `new` at the start of the paths in the columns TABLE.COLUMN of a sqlite file.

    Texts that hold paths after a quote, such as JSON, or after a blank are searched within.
    """
    with _opened(path.absolute().as_uri()) as connection, connection:
        for column in columns:
            table, _, name = column.partition(".")
            if name not in {row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')}:
                continue
            for scheme in ("", "file://"):
                start = f"{scheme}{old}/"
                connection.execute(
                    f'UPDATE "{table}" SET "{name}" = ? || substr("{name}", ?) WHERE substr("{name}", 1, ?) = ?',
                    (f"{scheme}{new}/", len(start) + 1, len(start), start),
                )
            for before in ('"', " "):
                connection.execute(
                    f'UPDATE "{table}" SET "{name}" = replace("{name}", ?, ?) WHERE instr("{name}", ?)',
                    (f"{before}{old}/", f"{before}{new}/", f"{before}{old}/"),
                )


def has_tables(database: Database) -> bool:
    """Returns True if there are tables; raises ServiceError if the database does not answer."""
    with answering(database.setting):
        return bool(inspect(database.engine).get_table_names())


def server_revision(database: Database, table: str) -> str | None:
    """Returns the version of a server's tables; None if it has no `table` of versions."""
    with answering(database.setting), database.engine.connect() as connection:
        if not inspect(connection).has_table(table):
            return None
        current = connection.execute(text(f'SELECT version_num FROM "{table}"')).scalar()
        return None if current is None else str(current)


def copy_rows(source: Database, target: Database) -> None:
    """Copies all rows into tables of the same names, whose own rows are deleted before; all of them or none.

    Raises UserError: a table with rows is missing in the target.
    """
    theirs, ours = MetaData(), MetaData()
    with answering(source.setting), answering(target.setting):
        theirs.reflect(source.engine)
        ours.reflect(target.engine)
        reading = (
            source.engine if source.is_sqlite else source.engine.execution_options(isolation_level="REPEATABLE READ")
        )
        with reading.connect() as here, target.writing.begin() as there:
            for table in theirs.tables.values():
                if table.name not in ours.tables and here.execute(select(1).select_from(table)).first():
                    raise UserError(f"{target.setting}: has no table {table.name}; it is of another version")
            for table in reversed(ours.sorted_tables):
                if there.execute(select(1).select_from(table)).first():
                    there.execute(delete(table))
            for table in ours.sorted_tables:
                for column in table.columns:
                    if isinstance(column.type, JSON):
                        column.type = JSON(none_as_null=True)
                their_table = theirs.tables.get(table.name)
                if their_table is None:
                    continue
                names = [column.name for column in their_table.columns if column.name in table.columns]
                rows = here.execution_options(yield_per=AT_ONCE).execute(
                    select(*(their_table.c[name] for name in names))
                )
                for some in rows.mappings().partitions():
                    there.execute(insert(table), [dict(row) for row in some])
            if not target.is_sqlite:
                _count_on(there, ours)


def _count_on(connection: Any, tables: MetaData) -> None:
    """Lets PostgreSQL's sequences go on after the highest number that was copied."""
    for table in tables.sorted_tables:
        for column in table.primary_key.columns:
            sequence = connection.scalar(
                text("SELECT pg_get_serial_sequence(quote_ident(:table), :column)"),
                {"table": table.name, "column": column.name},
            )
            highest = connection.scalar(select(func.max(column))) if sequence else None
            if highest is not None:
                connection.execute(
                    text("SELECT setval(:sequence, :highest)"), {"sequence": sequence, "highest": highest}
                )


@contextlib.contextmanager
def _opened(uri: str) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(uri, uri=True, timeout=30)
    try:
        yield connection
    finally:
        connection.close()
