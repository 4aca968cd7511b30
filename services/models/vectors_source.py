"""The word vectors that a verb uses: a bundle's directory, a run's name, or a registry reference."""

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dragoman.conf import again
from dragoman.model.bundles.directory import CONFIG, bundle_kind
from dragoman.model.bundles.vectors import VectorsBundle, load_vectors
from dragoman.model.errors import UserError
from dragoman.model.runs.bundles import bundles, find_bundle
from dragoman.services.models.registry import ModelVersion, Registry, is_registered, names_a_model

logger = logging.getLogger(__name__)


@dataclass
class VectorsSource:
    """The source of word vectors; part of the section of every verb that uses them."""

    vectors: str | None = None  # models:/NAME@ALIAS, a bundle's directory, a run's name; null: the newest run's
    runs: str = "artifacts/runs"
    tracking_uri: str = "sqlite:///artifacts/mlflow/mlflow.db"
    cache: str = "artifacts/cache/models"  # downloaded bundles


@dataclass(frozen=True)
class VectorsLoader:
    """Loads word vectors by name, or the newest ones; `key` names the setting in messages."""

    registry: Registry
    runs: Path
    key: str

    @classmethod
    def of(cls, section: str, source: VectorsSource) -> "VectorsLoader":
        """Makes the loader of the verb whose section is `section`."""
        registry = Registry(source.tracking_uri, Path(source.cache))
        return cls(registry, Path(source.runs), f"{section}.vectors")

    def load(self, reference: str | None) -> VectorsBundle:
        """Loads the vectors that `reference` names now; None: those of the newest run that has any, else the
        registry's.

        Raises UserError: an unknown name, no valid bundle of word vectors, or none anywhere.
        """
        if reference is None:
            return self._newest()
        return self._load(self.directory(reference), reference)

    def directory(self, reference: str) -> Path:
        """Returns the directory of a bundle, of a run's bundle, or of a version in the registry."""
        if is_registered(reference):
            return self.registry.fetch(self.registry.resolve(reference))
        directory = find_bundle(reference, self.runs, self.registry.cache)
        if directory is not None:
            return directory
        names = sorted(path.parent.name for path in bundles(self.runs))
        raise UserError(
            f"{self.key}: {reference!r} is neither a bundle's directory nor models:/NAME@ALIAS nor a finished run in "
            f"{self.runs}. Runs: {', '.join(names) or 'none'}"
        )

    def newest_bundle(self, fits: Callable[[str], bool]) -> Path | None:
        """Returns the newest run's bundle of a kind that fits."""
        newest = sorted(bundles(self.runs), key=lambda path: -(path / CONFIG).stat().st_mtime)
        return next((bundle for bundle in newest if fits(bundle_kind(bundle))), None)

    def _load(self, directory: Path, name: str) -> VectorsBundle:
        if bundle_kind(directory) == "translation":
            raise UserError(
                f"{self.key}: {name} holds a translation model, not word vectors: serve it with serve.model or "
                "serve.bundle, use it with dragoman translate"
            )
        return load_vectors(directory)

    def _newest(self) -> VectorsBundle:
        if bundle := self.newest_bundle(lambda kind: kind == "vectors"):
            run = bundle.parent.name
            logger.info("%s is not given: the word vectors of the newest run that has any, %s", self.key, run)
            return load_vectors(bundle)
        with contextlib.suppress(UserError):  # no registry here: none is found
            for newest in self.registry.list_versions("tags.bundle_kind = 'vectors'")[:1]:
                version = ModelVersion(newest.name, str(newest.version), str(newest.run_id or ""))
                logger.info("%s is not given: the registry's newest word vectors, %s", self.key, version)
                return self._load(self.registry.fetch(version), str(version))
        raise UserError(
            f"{self.key}: no word vectors in {self.runs} nor in the registry at {self.registry}; name them "
            f"({self.key}=PATH, RUN or models:/NAME@ALIAS), or train some: "
            f"{again.command('train', 'model=skipgram', 'registry=vectors', keep=names_a_model)}"
        )
