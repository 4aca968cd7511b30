"""The word vectors that a service uses: a bundle's directory, a run's name, or a registry reference."""

import contextlib
import logging
from dataclasses import dataclass
from pathlib import Path

from dragoman.conf import again
from dragoman.model.bundles.directory import CONFIG, bundle_kind
from dragoman.model.errors import UserError
from dragoman.model.runs.bundles import bundles, find_bundle
from dragoman.services.models.loaded_vectors import LoadedVectors, load_vectors_model
from dragoman.services.models.registry import UNREGISTERED, ModelVersion, Registry, names_a_model

logger = logging.getLogger(__name__)


@dataclass
class VectorsSource:
    """The source of word vectors; part of the section of every command that uses them."""

    vectors: str | None = None  # models:/NAME@ALIAS, a bundle's directory, a run's name; null: the newest run's
    runs: str = "artifacts/runs"
    tracking_uri: str = "sqlite:///artifacts/mlflow/mlflow.db"
    cache: str = "artifacts/cache/models"  # downloaded bundles


class VectorsLoader:
    """Loads the vectors that `KEY=reference` names; messages begin with `key`."""

    def __init__(self, key: str, registry: Registry, runs: Path) -> None:
        self.key = key
        self.registry = registry
        self.runs = runs

    @classmethod
    def of(cls, section: str, source: VectorsSource) -> "VectorsLoader":
        """Makes the loader of the command whose section is `section`."""
        return cls(f"{section}.vectors", Registry(source.tracking_uri, Path(source.cache)), Path(source.runs))

    def load(self, reference: str | None) -> LoadedVectors:
        """Loads the vectors that `reference` names now; None: those of the newest run that has any, else the
        registry's.

        Raises:
            UserError: an unknown name, no valid bundle of word vectors, or none anywhere.
        """
        if reference is None:
            return self._newest()
        if is_registered(reference):
            return self.load_version(self.registry.resolve(reference))
        return self._load(self.directory(reference))

    def load_version(self, version: ModelVersion) -> LoadedVectors:
        """Loads a version of the registry through the cache."""
        return self._load(self.registry.fetch(version), version)

    def _newest(self) -> LoadedVectors:
        for bundle in sorted(bundles(self.runs), key=lambda path: -(path / CONFIG).stat().st_mtime):
            if bundle_kind(bundle) == "vectors":
                run = bundle.parent.name
                logger.info("%s is not given: the word vectors of the newest run that has any, %s", self.key, run)
                return self._load(bundle)
        with contextlib.suppress(UserError):  # no registry here: none is found
            for newest in self.registry.list_versions("tags.bundle_kind = 'vectors'")[:1]:
                version = ModelVersion(newest.name, str(newest.version), str(newest.run_id or ""))
                logger.info("%s is not given: the registry's newest word vectors, %s", self.key, version)
                return self.load_version(version)
        raise UserError(
            f"{self.key}: no word vectors in {self.runs} nor in the registry at {self.registry}; name them "
            f"({self.key}=PATH, RUN or models:/NAME@ALIAS), or train some: "
            f"{again.command('train', 'model=skipgram', 'registry=vectors', keep=names_a_model)}"
        )

    def directory(self, reference: str) -> Path:
        """Returns a bundle's directory from its path, a run's path, or a run's name."""
        directory = find_bundle(reference, self.runs, self.registry.cache)
        if directory is not None:
            return directory
        names = sorted(path.parent.name for path in bundles(self.runs))
        raise UserError(
            f"{self.key}: {reference!r} is neither a bundle's directory nor models:/NAME@ALIAS nor a finished run in "
            f"{self.runs}. Runs: {', '.join(names) or 'none'}"
        )

    def _load(self, directory: Path, version: ModelVersion = UNREGISTERED) -> LoadedVectors:
        if bundle_kind(directory) == "translation":
            raise UserError(
                f"{self.key}: {version.name or directory} holds a translation model, not word vectors: "
                f"serve it with serve.model or serve.bundle, use it with dragoman translate"
            )
        served = load_vectors_model(directory, version)
        logger.info("%s, version %s, is loaded", served.origin.name, served.origin.version)
        return served


def is_registered(reference: str) -> bool:
    """Returns True if it names a version in the registry, which may change later."""
    return reference.startswith("models:/")
