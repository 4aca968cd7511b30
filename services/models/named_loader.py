"""Loads a model that a setting names: a bundle's directory, a run, or models:/NAME@ALIAS."""

import logging
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Generic, TypeVar

from dragoman.model.errors import UserError
from dragoman.model.runs.bundles import bundles, find_bundle
from dragoman.services.models.registry import UNREGISTERED, ModelVersion, Registry, is_registered

Model = TypeVar("Model")
logger = logging.getLogger(__name__)


class NamedLoader(ABC, Generic[Model]):
    """Loads the model that the setting `key` names; a kind of model says how its bundle is opened."""

    key: str

    def __init__(self, registry: Registry, runs: Path, device: str = "cpu", key: str = "") -> None:
        self.registry = registry
        self.runs = runs
        self.device = device
        self.key = key or self.key

    @abstractmethod
    def open(self, directory: Path, version: ModelVersion) -> Model:
        """Opens the bundle, and lets the model answer once, which refuses broken weights."""

    def load(self, reference: str) -> Model:
        """Loads the bundle of a directory or a run, or the version that `reference` names now.

        Raises UserError: an unknown name, or a bundle of another kind.
        """
        if is_registered(reference):
            return self.load_version(self.registry.resolve(reference))
        return self._load(self.directory(reference))

    def load_version(self, version: ModelVersion) -> Model:
        """Loads a version of the registry through the cache."""
        return self._load(self.registry.fetch(version), version)

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

    def _load(self, directory: Path, version: ModelVersion = UNREGISTERED) -> Model:
        model = self.open(directory, version)
        logger.info("%s: %s is loaded", self.key, version.name or directory)
        return model
