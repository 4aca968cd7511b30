"""The MLflow server or database that records go to: its address, its client, and how its errors are to be taken."""

import dataclasses
import logging
import os
import warnings
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from model.addresses import mask_address
from model.environment import restore_environment
from model.errors import UserError
from model.files import exclusive
from model.ranges import Amount, Positive

SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql")
# What MLflow warns of in its own code while it is imported: nobody's business here.
OWN_WARNINGS = ("The ``noload`` loader strategy is deprecated", ".*Any type hint is inferred as AnyType")


@dataclass
class TrackingConfig:
    """Where records go and how patient we are. Times in seconds."""

    uri: str = "sqlite:///artifacts/mlflow/mlflow.db"  # or http(s)://host:port, postgresql://...
    artifacts: str | None = "artifacts/mlflow/artifacts"  # for databases; a server has its own place
    experiment: str = "dragoman"
    parent: str | None = None  # the id of the run under which this one stands
    offline: bool = False  # true: spool only; `dragoman sync` sends later
    flush_seconds: Positive = 5.0  # how often the background thread sends
    timeout: Positive = 10.0  # for one request to the server
    flush_timeout: Amount = 30.0  # how long the end of a run waits for what is not sent yet
    register_timeout: Amount = 120.0  # how long it waits for its version in the registry
    system_metrics: bool = True
    system_seconds: Positive = 10.0  # between two samples of CPU and memory


class Verdict(Enum):
    """What an error of the server means for the record that met it."""

    LATER = "later"  # the server is away, busy, or forbids it for now: keep the record
    REFUSED = "refused"  # this record will never be taken: set it aside, go on with the next
    GONE = "gone"  # the run (or experiment) does not exist there


def resolve_paths(config: TrackingConfig) -> TrackingConfig:
    """The same with absolute local paths, so that processes started elsewhere mean the same database."""
    return dataclasses.replace(
        config,
        uri=_absolute_uri(config.uri),
        artifacts=_absolute_path(config.artifacts) if config.artifacts else None,
    )


def is_database(uri: str) -> bool:
    """Whether MLflow runs embedded in this process (a database address), rather than behind HTTP."""
    return not uri.startswith(("http://", "https://"))


def connect(config: TrackingConfig) -> Any:
    """An `MlflowClient` with short patience. A database that does not exist yet is created (seconds).

    Raises:
        UserError: an address of a kind that is not known.
        ImportError: MLflow is not installed here.
        mlflow.exceptions.MlflowException: nothing answers.
    """
    check(config)
    environment(config)
    import mlflow
    from mlflow.tracking import MlflowClient

    for chatty in ("mlflow", "alembic", "botocore"):  # a line for each migration of a new database, for credentials
        logging.getLogger(chatty).setLevel(logging.WARNING)
    if config.uri.startswith("sqlite:///"):
        make_database(Path(config.uri.removeprefix("sqlite:///")))
    # Some of MLflow (registering from an embedded database, loading `models:/`) reads the process-wide address. Setting
    # it also writes the environment, where it would reach child processes and later configurations: that is undone.
    with restore_environment("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"):
        mlflow.set_tracking_uri(config.uri)
        mlflow.set_registry_uri(config.uri)
    return MlflowClient(tracking_uri=config.uri, registry_uri=config.uri)


def make_database(path: Path) -> None:
    """Make MLflow's database where there is none yet: whole, or not at all.

    MLflow makes its tables in many steps, and a file that a killed process leaves in the middle of them is refused by
    every later one.
    """
    if path.exists():
        return
    from mlflow.tracking import MlflowClient

    # a command and its worker begin at once: one of them makes it
    with exclusive(path.with_name(f".{path.name}.making"), wait=True):
        part = path.with_name(f".{path.name}.part")
        part.unlink(missing_ok=True)  # of a process that was killed
        if not path.exists():
            address = f"sqlite:///{part}"
            MlflowClient(tracking_uri=address, registry_uri=address).search_experiments(max_results=1)
            part.rename(path)


def check(config: TrackingConfig) -> None:
    """Refuse an address that cannot be one, before a run starts.

    Raises:
        UserError: names `tracking.uri`, its value and the kinds that there are.
    """
    scheme = config.uri.partition("://")[0].partition("+")[0]
    if "://" not in config.uri or scheme not in SCHEMES:
        raise UserError(
            f"tracking.uri: {mask_address(config.uri)!r} is not an address. Kinds: {', '.join(SCHEMES)}://..."
        )


def environment(config: TrackingConfig) -> None:
    """MLflow's own switches. It reads them at each call, and some only at import, so they are set before it."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ["MLFLOW_ALLOW_PICKLE_DESERIALIZATION"] = "false"
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("MLFLOW_UV_AUTO_DETECT", "false")
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # MLflow looks for git; we do not need it
    # One try a request: the background thread itself tries again, with its own pauses.
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = str(max(1, round(config.timeout)))
    os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
    for own_warning in OWN_WARNINGS:
        warnings.filterwarnings("ignore", message=own_warning)


def verdict(problem: Exception) -> Verdict:
    """How to take an exception that a call to MLflow raised."""
    code = getattr(problem, "error_code", None)
    if code in ("INVALID_PARAMETER_VALUE", "BAD_REQUEST", "RESOURCE_ALREADY_EXISTS"):
        return Verdict.REFUSED
    if code == "RESOURCE_DOES_NOT_EXIST":
        return Verdict.GONE
    return Verdict.LATER


def _absolute_uri(uri: str) -> str:
    path = uri.removeprefix("sqlite:///")
    return uri if path == uri else f"sqlite:///{Path(path).absolute()}"


def _absolute_path(place: str) -> str:
    return place if "://" in place else str(Path(place).absolute())
