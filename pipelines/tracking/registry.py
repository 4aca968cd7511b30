"""The model registry: registers bundles, finds versions, reads the served alias."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from dragoman.conf import again
from dragoman.model.addresses import mask_address, mask_secrets
from dragoman.model.bundles.directory import bundle_hash
from dragoman.model.errors import UserError, reason
from dragoman.model.mlflow_client import all_versions, download
from dragoman.model.model_owner import OWNER_TAG, check_model_owner
from dragoman.model.repeated import said_if_slow
from dragoman.pipelines.tracking import names
from dragoman.pipelines.tracking.author import expected_owner
from dragoman.pipelines.tracking.cards import BUNDLE_TAG
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.sender import find_registration
from dragoman.pipelines.tracking.server import Verdict, connect, resolve_paths, verdict
from dragoman.pipelines.tracking.settings import RegistryConfig, TrackingConfig

logger = logging.getLogger(__name__)
# a model of each kind that has a registry of its own
MODELS = {"labels": "classifier_transformer", "language": "rnnlm_lstm", "masked": "bert_tiny", "vectors": "skipgram"}


@dataclass(frozen=True)
class Version:
    """One version of a registered model."""

    number: str
    run_id: str
    tags: dict[str, str] = field(default_factory=dict)


def register_bundle(tracking: TrackingConfig, registry: RegistryConfig, run: TrackedRun, bundle: Path) -> str | None:
    """Registers `bundle` under `run`; returns the version's number, or None if the server is away.

    Then the registration waits in the run's spool like every other record. The same bundle is registered once.
    """
    key = bundle_hash(bundle)
    registration = find_registration(run.run_dir, key)
    if registration is not None:
        logger.info("%s version %s is this bundle already", registration["name"], registration["version"])
    else:
        run.register(bundle, registry.name, key, {"run_name": run.name})
        run.flush(tracking.register_timeout)
        registration = find_registration(run.run_dir, key)
    if registration is None:
        logger.warning(
            "%s is not registered yet (%s); `dragoman sync` does it later, after a job the service does it by itself",
            registry.name,
            run.trouble or "MLflow is slow",
        )
        return None
    return registration["version"]


class Registry:
    """One registered model on the server.

    The constructor raises UserError: nothing answers at `tracking.uri`, or MLflow is not installed.
    """

    def __init__(self, tracking: TrackingConfig, config: RegistryConfig) -> None:
        self.tracking = resolve_paths(tracking)
        self.config = config
        where = mask_address(self.tracking.uri)
        try:
            with said_if_slow(logger.info, f"opening MLflow's registry at {where}"):
                self.client: Any = connect(self.tracking)
                self.client.search_registered_models(max_results=1)
        except UserError:
            raise
        except Exception as problem:  # MLflow raises many kinds for "no answer", which mean the same to the user
            raise UserError(f"tracking.uri: the registry at {where} does not answer ({self._said(problem)})") from None

    def champion(self) -> Version | None:
        """Returns the version of the alias; None if the alias or the model does not exist."""
        try:
            version = self.client.get_model_version_by_alias(self.config.name, self.config.alias)
        except Exception as problem:  # MLflow's "no such alias" has two codes; other errors are raised again
            if verdict(problem) is Verdict.LATER:
                raise
            return None
        return _version(version)

    def version(self, number: str) -> Version:
        """Returns one version by its number. Raises UserError: there is no such version; names the existing ones."""
        every = self.versions()
        for version in every:
            if version.number == str(number):
                return version
        numbers = ", ".join(row.number for row in every) or "none"
        raise UserError(f"{self.config.name} has no version {number!r}. Versions: {numbers}")

    def versions(self) -> list[Version]:
        """Returns all versions, the newest first."""
        versions = all_versions(self.client, f"name = '{self.config.name}'")
        return sorted((_version(version) for version in versions), key=lambda version: -int(version.number))

    def newest(self) -> Version:
        """Returns the version registered last. Raises UserError: the model has no versions."""
        every = self.versions()
        if not every:
            kind = self.config.name.rpartition("-")[2]  # as the choices of `registry` name them
            model = [f"model={MODELS[kind]}"] if kind in MODELS else []
            raise UserError(
                f"registry.name: {self.config.name!r} has no versions yet; a training registers one: "
                f"{again.command('train', otherwise=model)}"
            )
        return every[0]

    def check_owner(self) -> None:
        """Refuses a job whose model belongs to another owner."""
        expected = expected_owner()
        if expected and self.versions():
            tags = self.client.get_registered_model(self.config.name).tags
            check_model_owner(self.config.name, tags.get(OWNER_TAG, ""), expected)

    def tag(self, number: str, key: str, value: str) -> None:
        """Sets a tag of a version; a long value is cut to what MLflow stores."""
        self.client.set_model_version_tag(self.config.name, number, key, names.cut(value, names.TAG_LENGTH))

    def set_champion(self, number: str) -> None:
        """Points the alias at a version."""
        self.client.set_registered_model_alias(self.config.name, self.config.alias, number)

    def bundle(self, version: Version, to: Path) -> Path:
        """Returns the version's bundle directory: on this machine if it lies here, else downloaded below `to`.

        Raises ServiceError: the download failed, for example for lack of space; says why. Raises UserError: the bundle
        is not the registered one.
        """
        reference = f"models:/{self.config.name}/{version.number}"
        folder = download(self.tracking.uri, reference, to)
        flavors = yaml.safe_load((folder / "MLmodel").read_text(encoding="utf-8"))["flavors"]
        bundle = Path(folder, flavors["python_function"]["artifacts"]["bundle"]["path"])
        registered, digest = version.tags.get(BUNDLE_TAG), bundle_hash(bundle)
        if registered and digest != registered:
            raise UserError(
                f"{reference}: the bundle was changed after it was registered (sha256 {digest[:12]}, "
                f"the version names {registered[:12]}). Register it again as a version of its own"
            )
        return bundle

    def _said(self, problem: Exception) -> str:
        """Returns the message of a failure without the address's secrets."""
        return mask_secrets(f"{type(problem).__name__}: {reason(problem)}", self.tracking.uri)


def _version(version: Any) -> Version:
    return Version(str(version.version), str(version.run_id), dict(version.tags))
