"""The services' access to MLflow: the version that an alias names, and its bundle as a local directory."""

import contextlib
import logging
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.model.addresses import mask_address, mask_secrets
from dragoman.model.errors import ServiceError, UserError, reason
from dragoman.model.mlflow_client import PAGE, all_versions, download, mlflow_client
from dragoman.model.names import check_name
from dragoman.model.repeated import said_if_slow

REFERENCE = re.compile(r"models:/(?P<name>[^/@]+)(?:@(?P<alias>[^/@]+)|/(?P<version>\d+))")
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelVersion:
    """A registered version: `models:/NAME/VERSION`; without a name, one that is in no registry."""

    name: str = ""
    version: str = ""
    run_id: str = ""

    def __str__(self) -> str:
        return f"models:/{self.name}/{self.version}"


UNREGISTERED = ModelVersion()


def is_registered(reference: str) -> bool:
    """Returns True if it names a version in the registry, which may change later; anything else is a bundle's place."""
    return reference.startswith("models:/")


class Registry:
    """Versions and their bundles at one tracking server (or sqlite file); MLflow's form of `uri`."""

    def __init__(self, uri: str, cache: Path) -> None:
        self.uri = uri
        self.cache = cache

    def resolve(self, reference: str) -> ModelVersion:
        """Returns the version that `models:/NAME@ALIAS` or `models:/NAME/VERSION` names now."""
        match = REFERENCE.fullmatch(reference)
        if match is None:
            raise UserError(f"{reference!r} is neither models:/NAME@ALIAS nor models:/NAME/VERSION nor a bundle's path")
        from mlflow.exceptions import MlflowException

        client = self._client()
        name = check_name("models:/", match["name"])
        try:
            if match["alias"]:
                version = client.get_model_version_by_alias(name, match["alias"])
            else:
                version = client.get_model_version(name, match["version"])
        except MlflowException as problem:
            if problem.error_code == "PERMISSION_DENIED":  # also of a model that is not there
                raise UserError(
                    f"{reference}: the registry at {self} shows this login no such model: nothing is registered under "
                    "that name yet, or the login may not read it"
                ) from None
            if problem.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "NOT_FOUND"):
                raise self._unreachable(problem) from None
            raise UserError(
                f"{reference}: not in the registry at {self}. {self._what_there_is(name, match['alias'] or 'champion')}"
            ) from None
        return ModelVersion(name=name, version=str(version.version), run_id=str(version.run_id or ""))

    def list_versions(self, query: str = "") -> list[Any]:
        """Returns MLflow's records of all versions that match `query` (in MLflow's language), newest first."""
        from mlflow.exceptions import MlflowException

        client = self._client()
        try:
            versions = all_versions(client, query)
        except MlflowException as problem:
            raise self._unreachable(problem) from None
        return sorted(versions, key=lambda version: -version.creation_timestamp)

    def aliases(self) -> dict[tuple[str, str], list[str]]:
        """Returns (model, version) -> the aliases that name it."""
        models = self._client().search_registered_models(max_results=PAGE)
        named: dict[tuple[str, str], list[str]] = {}
        for model in models:
            for alias, version in model.aliases.items():
                named.setdefault((model.name, str(version)), []).append(alias)
        return named

    @contextlib.contextmanager
    def asking(self) -> Iterator[Any]:
        """Yields an MLflow client."""
        with self._said_if_slow():
            from mlflow.exceptions import MlflowException

        try:
            yield self._client()
        except MlflowException as problem:
            raise self._unreachable(problem) from None

    def fetch(self, version: ModelVersion) -> Path:
        """Returns the bundle directory of `version`; downloads it once into the cache, completely or not at all.

        Raises:
            ServiceError: the download failed; the message says why.
        """
        kept = self.cache / version.name / f"{version.version}-{version.run_id[:12] or 'norun'}"
        if not kept.is_dir():
            self._download(version, kept)
        return bundle_within(kept)

    def _download(self, version: ModelVersion, kept: Path) -> None:
        self._client()
        temporary: Path | None = None
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            temporary = Path(tempfile.mkdtemp(prefix=f".{kept.name}-", dir=kept.parent))
            download(self.uri, str(version), temporary)
            try:
                temporary.rename(kept)
            except OSError:
                if not kept.is_dir():  # else another process was first; versions never change, so its copy is equal
                    raise
        except OSError as problem:  # the disk is full
            raise ServiceError(f"{version} could not be downloaded to {kept}: {reason(problem)}") from None
        finally:
            if temporary is not None:
                shutil.rmtree(temporary, ignore_errors=True)
        logger.info("%s was downloaded to %s", version, kept)

    def _client(self) -> Any:
        """Returns an MLflow client that gives up after seconds."""
        if self.uri.startswith("sqlite:///") and not Path(self.uri.removeprefix("sqlite:///")).is_file():
            raise UserError(
                f"tracking.uri: {self} is not there: no model has been trained here yet. `dragoman demo` trains one in "
                "minutes"
            )
        with self._said_if_slow():
            return mlflow_client(self.uri)

    def _said_if_slow(self) -> contextlib.AbstractContextManager[None]:
        return said_if_slow(logger.info, f"opening MLflow's registry at {self}")

    def _unreachable(self, problem: Exception) -> UserError:
        said = mask_secrets(reason(problem), self.uri)
        return UserError(f"tracking.uri: the registry at {self} does not answer ({said})")

    def __str__(self) -> str:
        return mask_address(self.uri)

    def _what_there_is(self, name: str, alias: str) -> str:
        """Returns the existing names that the message offers instead."""
        client = self._client()
        models = {model.name: model for model in client.search_registered_models(max_results=50)}
        if name in models:
            aliases = ", ".join(sorted(models[name].aliases)) or "none"
            versions = sorted(int(version.version) for version in client.search_model_versions(f"name='{name}'"))
            return (
                f"{name} has the aliases: {aliases}; the versions: {', '.join(map(str, versions)) or 'none'}. "
                f"`dragoman promote registry.name={name} registry.alias={alias}` gives {alias} to the better version"
            )
        if models:
            return f"Registered models: {', '.join(sorted(models))}"
        return "Registered models: none; `dragoman train` registers one, `dragoman promote` makes it the champion"


def bundle_within(directory: Path) -> Path:
    """Returns the bundle in `directory`: itself, or a folder below it with both a `config.json` and the weights."""
    for candidate in [directory, *sorted(path for path in directory.rglob("*") if path.is_dir())]:
        if (candidate / "config.json").is_file() and (candidate / "model.safetensors").is_file():
            return candidate
    raise UserError(f"{directory}: no bundle (config.json and model.safetensors) in it")
