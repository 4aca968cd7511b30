"""MLflow's client for pipelines and services: its switches, its address, the versions of a model and their files."""

import logging
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dragoman.model.addresses import mask_secrets
from dragoman.model.environment import restore_environment
from dragoman.model.errors import ServiceError, reason
from dragoman.model.files import exclusive

PAGE = 1000  # records per request
# Warnings about MLflow's own code while it is imported, which do not concern users.
OWN_WARNINGS = ("The ``noload`` loader strategy is deprecated", ".*Any type hint is inferred as AnyType")


def set_switches(timeout: float | None = None) -> None:
    """Sets MLflow's own switches. It reads them at each call, and some only at import, so this comes first.

    `timeout`: seconds for a request, which is tried once. None: what the environment says, else 10 s and one more try
    (MLflow's own default is minutes).
    """
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ["MLFLOW_ALLOW_PICKLE_DESERIALIZATION"] = "false"
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("MLFLOW_UV_AUTO_DETECT", "false")
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # MLflow looks for git; we do not need it
    if timeout is None:
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    else:
        os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = str(max(1, round(timeout)))
        os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
    for chatty in ("mlflow", "alembic", "botocore"):  # they log each migration of a new database, and credentials
        logging.getLogger(chatty).setLevel(logging.WARNING)
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # else a warning for each retry
    for own_warning in OWN_WARNINGS:
        warnings.filterwarnings("ignore", message=own_warning)


def mlflow_client(uri: str, timeout: float | None = None) -> Any:
    """Returns an `MlflowClient` of a server or a database; `timeout` as in `set_switches`.

    Raises ImportError: MLflow is not installed here.
    """
    set_switches(timeout)
    import mlflow

    # Some of MLflow (registering from an embedded database, loading `models:/`) reads the process-wide address. Setting
    # it also sets the environment, which would reach child processes and later configurations, so that is undone.
    with restore_environment("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"):
        mlflow.set_tracking_uri(uri)
        mlflow.set_registry_uri(uri)
    return mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)


def all_versions(client: Any, query: str) -> list[Any]:
    """Returns MLflow's records of all versions that match `query` (in MLflow's language)."""
    page = client.search_model_versions(query, max_results=PAGE)
    versions = list(page)
    while page.token:
        page = client.search_model_versions(query, max_results=PAGE, page_token=page.token)
        versions += page
    return versions


def download(uri: str, reference: str, folder: Path) -> Path:
    """Downloads `models:/NAME/VERSION` below `folder` and returns its place: where it is, if on this machine.

    Raises ServiceError: the server fails or the disk is full; says which.
    """
    from mlflow.artifacts import download_artifacts
    from mlflow.exceptions import MlflowException

    try:
        folder.mkdir(parents=True, exist_ok=True)
        place = download_artifacts(artifact_uri=reference, dst_path=str(folder), tracking_uri=uri, registry_uri=uri)
    except (MlflowException, OSError) as problem:
        said = mask_secrets(reason(problem), uri)
        raise ServiceError(f"{reference} could not be downloaded to {folder}: {said}") from None
    return Path(place)


def make_tables(address: str) -> None:
    """Makes MLflow's tables in a new database."""
    mlflow_client(address).search_experiments(max_results=1)


def make_database(path: Path, fill: Callable[[str], None] = make_tables) -> None:
    """Makes a sqlite file of MLflow if there is none, atomically; `fill` makes the tables at an address.

    MLflow makes its tables in many steps, and refuses a file that a killed process has left half-made.
    """
    if path.exists():
        return
    # a command and its worker start at once: one of them makes it
    path.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(path.with_name(f".{path.name}.making"), wait=True):
        part = path.with_name(f".{path.name}.part")
        for ending in ("", "-journal", "-wal", "-shm"):  # of a killed process; a new file would take up its journal
            part.with_name(part.name + ending).unlink(missing_ok=True)
        if not path.exists():
            fill(f"sqlite:///{part}")
            part.rename(path)
