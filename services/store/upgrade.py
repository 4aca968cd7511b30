"""Brings a service's tables to this program's version: makes the tables, columns and indexes that are missing.

The declared tables are the only description. What cannot be derived from them, such as the values of a new column, is a
step with the number of its version.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, text
from sqlalchemy.exc import DatabaseError
from sqlalchemy.schema import CreateColumn

from dragoman.model.errors import UserError
from dragoman.services.store.database import Database


@dataclass(frozen=True)
class Schema:
    """The tables of one service. Several services may share a database: each has a version of its own."""

    metadata: MetaData
    version: str  # of this program's tables; a greater one sorts after it
    version_table: str
    steps: Mapping[str, Callable[[Connection], None]] = field(default_factory=dict)  # version -> what it fills in


def upgrade(database: Database, schema: Schema) -> None:
    """Makes what is missing, one process at a time; in a new database everything.

    Raises UserError: the database is of a newer Dragoman.
    """
    if _is_newest(database, schema):
        return
    versions = Table(schema.version_table, MetaData(), Column("version_num", String(32), primary_key=True))
    with database.upgrading() as connection:
        versions.create(connection, checkfirst=True)
        before = connection.scalar(versions.select()) or ""
        if before > schema.version:
            raise UserError(
                f"{database.setting}: {database.engine.url} was made by a newer Dragoman ({before}; this one knows "
                f"{schema.version}); start that version, or name another database"
            )
        tables = set(inspect(connection).get_table_names())
        for table in schema.metadata.sorted_tables:
            if table.name in tables:
                _extend(connection, table)
        schema.metadata.create_all(connection)
        for version, step in sorted(schema.steps.items()):
            if before and before < version:
                step(connection)
        connection.execute(versions.delete())
        connection.execute(versions.insert().values(version_num=schema.version))


def _extend(connection: Connection, table: Table) -> None:
    """Adds missing columns and indexes, and replaces the indexes of before."""
    columns = {column["name"] for column in inspect(connection).get_columns(table.name)}
    for column in table.columns:
        if column.name not in columns:  # in rows of before it has the default that the table declares
            added = CreateColumn(column).compile(dialect=connection.dialect)
            connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {added}"))
    present = {str(index["name"]): index["column_names"] for index in inspect(connection).get_indexes(table.name)}
    indexes = {str(index.name): index for index in table.indexes}
    for name in present:
        if name not in indexes and name.startswith(f"ix_{table.name}_"):
            connection.execute(text(f"DROP INDEX {name}"))
    for name, index in indexes.items():
        if present.get(name) != [column.name for column in index.columns]:
            index.drop(connection, checkfirst=True)
            index.create(connection)


def _is_newest(database: Database, schema: Schema) -> bool:
    """Returns True if the tables are of this program's version, and none of those it uses is missing."""
    try:
        with database.engine.connect() as connection:
            versions = connection.execute(text(f"SELECT version_num FROM {schema.version_table}")).scalars().all()
            return versions == [schema.version] and schema.metadata.tables.keys() <= {
                *inspect(connection).get_table_names()
            }
    except DatabaseError:  # a new database, or one whose error the upgrade is to tell of
        return False
