"""The word vectors that a service uses: a bundle's directory, a run's name, or a registry reference."""

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dragoman.conf import again
from dragoman.model.bundles.directory import CONFIG, bundle_kind
from dragoman.model.errors import UserError
from dragoman.model.runs.bundles import bundles
from dragoman.services.models.loaded_vectors import LoadedVectors, load_vectors_model
from dragoman.services.models.named_loader import NamedLoader
from dragoman.services.models.registry import ModelVersion, Registry, names_a_model

logger = logging.getLogger(__name__)


@dataclass
class VectorsSource:
    """The source of word vectors; part of the section of every command that uses them."""

    vectors: str | None = None  # models:/NAME@ALIAS, a bundle's directory, a run's name; null: the newest run's
    runs: str = "artifacts/runs"
    tracking_uri: str = "sqlite:///artifacts/mlflow/mlflow.db"
    cache: str = "artifacts/cache/models"  # downloaded bundles


class VectorsLoader(NamedLoader[LoadedVectors]):
    """Loads word vectors by name, or the newest ones."""

    key = "serve.vectors"

    @classmethod
    def of(cls, section: str, source: VectorsSource) -> "VectorsLoader":
        """Makes the loader of the command whose section is `section`."""
        registry = Registry(source.tracking_uri, Path(source.cache))
        return cls(registry, Path(source.runs), key=f"{section}.vectors")

    def open(self, directory: Path, version: ModelVersion) -> LoadedVectors:
        if bundle_kind(directory) == "translation":
            raise UserError(
                f"{self.key}: {version.name or directory} holds a translation model, not word vectors: "
                f"serve it with serve.model or serve.bundle, use it with dragoman translate"
            )
        return load_vectors_model(directory, version)

    def load(self, reference: str | None) -> LoadedVectors:
        """Loads the vectors that `reference` names now; None: those of the newest run that has any, else the
        registry's.

        Raises UserError: an unknown name, no valid bundle of word vectors, or none anywhere.
        """
        return self._newest() if reference is None else super().load(reference)

    def newest_bundle(self, fits: Callable[[str], bool]) -> Path | None:
        """Returns the newest run's bundle of a kind that fits."""
        newest = sorted(bundles(self.runs), key=lambda path: -(path / CONFIG).stat().st_mtime)
        return next((bundle for bundle in newest if fits(bundle_kind(bundle))), None)

    def _newest(self) -> LoadedVectors:
        if bundle := self.newest_bundle(lambda kind: kind == "vectors"):
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
