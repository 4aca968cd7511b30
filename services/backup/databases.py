"""The databases of a backup: the ledger, the endpoint's, MLflow's. Each is kept as one sqlite file.

That of a server is copied row by row, so that a restore may put it into sqlite or PostgreSQL, whichever it was.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from dragoman.model.errors import ServiceError, UserError
from dragoman.model.files import read_secret
from dragoman.services.backup.settings import BackupConfig
from dragoman.services.endpoint import key_store
from dragoman.services.jobs.ledger import database as ledger
from dragoman.services.store import copying
from dragoman.services.store.database import Database
from dragoman.services.store.upgrade import Schema, upgrade

LOGINS = "alembic_version_auth"  # table of versions of MLflow's logins, which may be in its database
MAKE_TABLES = "from mlflow import MlflowClient; MlflowClient().search_experiments(max_results=1)"


@dataclass(frozen=True)
class Kept:
    """A database: its name in a backup, and the setting that says where it is."""

    name: str
    url: str
    password: str | None
    schema: Schema | None  # None: MLflow makes and upgrades its tables itself
    counted: tuple[str, ...]  # tables whose rows a backup tells
    paths: tuple[str, ...]  # columns that hold paths of the home, as TABLE.COLUMN

    @property
    def setting(self) -> str:
        return f"backup.{self.name}"

    @property
    def server(self) -> bool:
        return copying.is_server(self.url)

    @property
    def file(self) -> Path:
        return copying.sqlite_file(self.url)

    @property
    def version_table(self) -> str:
        return "alembic_version" if self.schema is None else self.schema.version_table

    def open(self) -> Database:
        return Database(self.url, self.setting, self.password)

    def filled(self) -> bool:
        """Returns True if the database exists and has tables."""
        if not self.server:
            return self.file.exists()
        database = self.open()
        try:
            return copying.has_tables(database)
        finally:
            database.close()

    def copy_to(self, target: Path) -> str | None:
        """Copies the database into the sqlite file `target`; returns the version of its tables."""
        if not self.server:
            copying.copy_file(self.file, target)
            return copying.revision(target, self.version_table)
        source = self.open()
        copy = Database(f"sqlite:///{target}", self.setting)
        try:
            version = copying.server_revision(source, self.version_table)
            logins = self.schema is None and copying.server_revision(source, LOGINS) is not None
            self._make_tables(copy, f"sqlite:///{target}", version, logins)
            copying.copy_rows(source, copy)
        finally:
            source.close()
            copy.close()
        copying.close_log(target)
        return version

    def check_version(self, version: str | None, made_by: str) -> None:
        """Raises UserError if a backup's tables are of a newer version than this program's."""
        if self.schema is not None and version is not None and version > self.schema.version:
            raise UserError(
                f"{self.name}: the backup was made by Dragoman {made_by}, whose tables ({version}) are newer than this "
                f"program's ({self.schema.version}); restore it with that version or a later one"
            )

    def prepare(self, copy: Path, old_home: str, home: str) -> None:
        """Brings a copy to this program's version and puts the new home into its paths."""
        if self.schema is not None:
            database = Database(f"sqlite:///{copy}", self.setting)
            try:
                upgrade(database, self.schema)
            finally:
                database.close()
        if old_home != home:
            copying.move_paths(copy, self.paths, old_home, home)
        copying.close_log(copy)

    def fill(self, copy: Path) -> None:
        """Copies a backup's rows into the server's empty database."""
        if self.schema is None:
            self._mlflow(["-m", "mlflow", "db", "upgrade", f"sqlite:///{copy}"], f"sqlite:///{copy}")
        source, target = Database(f"sqlite:///{copy}", self.setting), self.open()
        try:
            logins = copying.revision(copy, LOGINS) is not None
            self._make_tables(target, self.url, copying.revision(copy, self.version_table), logins)
            copying.copy_rows(source, target)
        finally:
            source.close()
            target.close()

    def _make_tables(self, database: Database, url: str, version: str | None, logins: bool) -> None:
        """Makes the tables of an empty database, without rows that count."""
        if self.schema is not None:
            upgrade(database, self.schema)
            return
        self._mlflow(["-c", MAKE_TABLES], url)
        if logins:
            self._mlflow(["-m", "mlflow.server.auth", "db", "upgrade", f"--url={copying.with_driver(url)}"], url)
        revision = copying.server_revision(database, self.version_table)
        if version != revision:
            raise UserError(
                f"{self.setting}: its tables are of version {version}, those of the MLflow that is installed here of "
                f"{revision}; bring them there with: mlflow db upgrade URL"
            )

    def _mlflow(self, words: list[str], url: str) -> None:
        """Runs a Python process with MLflow on the database; the password is no word that others could read."""
        environment = {
            **os.environ,
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_TRACKING_URI": copying.with_driver(url),
        }
        if self.password is not None:
            environment["PGPASSWORD"] = self.password
        done = subprocess.run(
            [sys.executable, *words], env=environment, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise ServiceError(f"{self.setting}: MLflow cannot make its tables ({last[:300]})")


# name -> schema, counted tables, columns with paths; of MLflow it makes the schema itself
TABLES: dict[str, tuple[Schema | None, tuple[str, ...], tuple[str, ...]]] = {
    "ledger": (ledger.SCHEMA, ("jobs", "tokens", "schedules"), ("places.path", "jobs.plan", "jobs.run")),
    "endpoint": (key_store.SCHEMA, ("api_keys", "translation_memory"), ()),
    "mlflow": (
        None,
        ("runs", "registered_models", "model_versions"),
        (
            *("experiments.artifact_location", "runs.artifact_uri", "logged_models.artifact_location"),
            *("model_versions.source", "model_versions.storage_location"),
        ),
    ),
}


def databases(config: BackupConfig) -> list[Kept]:
    """Returns the databases that the settings name."""

    def password(key: str) -> str | None:
        path = getattr(config, key)
        return None if path is None else read_secret(f"backup.{key}", path)

    return [Kept(name, getattr(config, name), password(f"{name}_password"), *row) for name, row in TABLES.items()]
