"""The MLflow server or database for records: its address, its client, and the meaning of its errors."""

import dataclasses
from enum import Enum
from pathlib import Path
from typing import Any

from dragoman.model.addresses import mask_address
from dragoman.model.errors import UserError
from dragoman.model.mlflow_client import make_database, mlflow_client
from dragoman.pipelines.tracking.settings import TrackingConfig

SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql")


class Verdict(Enum):
    """The meaning of a server's error for the record that met it."""

    LATER = "later"  # the server is away, busy, or forbids it for now: keep the record
    REFUSED = "refused"  # this record will never be accepted: set it aside and send the next
    GONE = "gone"  # the run (or experiment) does not exist there


def resolve_paths(config: TrackingConfig) -> TrackingConfig:
    """Returns the settings with absolute local paths, so that processes in other folders use the same database."""
    uri, artifacts, database = config.uri, config.artifacts, config.uri.removeprefix("sqlite:///")
    if database != uri:
        uri = f"sqlite:///{Path(database).absolute()}"
    if artifacts and "://" not in artifacts:
        artifacts = str(Path(artifacts).absolute())
    return dataclasses.replace(config, uri=uri, artifacts=artifacts or None)


def is_database(uri: str) -> bool:
    """Returns True if MLflow runs embedded in this process (a database address), not behind HTTP."""
    return not uri.startswith(("http://", "https://"))


def connect(config: TrackingConfig) -> Any:
    """Returns an `MlflowClient` with short timeouts. Creates a missing database, which takes seconds.

    Raises UserError: an address of an unknown kind. Raises ImportError: MLflow is not installed here. Raises
    mlflow.exceptions.MlflowException: no answer.
    """
    check(config)
    if config.uri.startswith("sqlite:///"):
        make_database(Path(config.uri.removeprefix("sqlite:///")))
    return mlflow_client(config.uri, config.timeout)


def check(config: TrackingConfig) -> None:
    """Refuses an invalid address before a run starts.

    Raises UserError: names `tracking.uri`, its value and the possible kinds.
    """
    scheme = config.uri.partition("://")[0].partition("+")[0]
    if "://" not in config.uri or scheme not in SCHEMES:
        raise UserError(
            f"tracking.uri: {mask_address(config.uri)!r} is not an address. Kinds: {', '.join(SCHEMES)}://..."
        )


def verdict(problem: Exception) -> Verdict:
    """Returns the meaning of an exception that a call to MLflow raised."""
    code = getattr(problem, "error_code", None)
    if code in ("INVALID_PARAMETER_VALUE", "BAD_REQUEST", "RESOURCE_ALREADY_EXISTS"):
        return Verdict.REFUSED
    if code == "RESOURCE_DOES_NOT_EXIST":
        return Verdict.GONE
    return Verdict.LATER
