"""Makes a service's tables, and refuses those of another version."""

from dataclasses import dataclass

from sqlalchemy import Column, MetaData, String, Table, inspect, text
from sqlalchemy.exc import DatabaseError

from dragoman.model.errors import ServiceError, UserError
from dragoman.services.store.database import DAMAGED, Database


@dataclass(frozen=True)
class Schema:
    """The tables of one service. Several services may share a database: each has a version of its own."""

    metadata: MetaData
    version: str  # of this program's tables
    version_table: str


def upgrade(database: Database, schema: Schema) -> None:
    """Makes the tables of an empty database, one process at a time.

    Raises ServiceError: pages of its file are damaged; what is still sound would go on without the rest.
    """
    if database.is_sqlite:
        with database.engine.connect() as connection:
            fault = connection.scalar(text("PRAGMA quick_check(1)"))
        if fault != "ok":
            why = " ".join(str(fault).split())
            raise ServiceError(f"{database.setting}: the database cannot be used ({why}; {DAMAGED})")
    if _is_newest(database, schema):
        return
    versions = Table(schema.version_table, MetaData(), Column("version_num", String(32), primary_key=True))
    with database.upgrading() as connection:
        before = connection.scalar(versions.select()) if inspect(connection).has_table(versions.name) else None
        if before is not None and before != schema.version:
            raise UserError(
                f"{database.setting}: {database.engine.url} was made by another version of Dragoman (tables {before}; "
                f"this one has {schema.version}); start that version, or name an empty database"
            )
        schema.metadata.create_all(connection)
        versions.create(connection, checkfirst=True)
        if before is None:
            connection.execute(versions.insert().values(version_num=schema.version))


def _is_newest(database: Database, schema: Schema) -> bool:
    """Returns True if the tables are of this program's version, and none of those it uses is missing."""
    try:
        with database.engine.connect() as connection:
            versions = connection.execute(text(f"SELECT version_num FROM {schema.version_table}")).scalars().all()
            return versions == [schema.version] and schema.metadata.tables.keys() <= {
                *inspect(connection).get_table_names()
            }
    except DatabaseError:  # a new database, or one whose error shows when its tables are made
        return False
