"""A loaded encoder of texts, and the facts that trace a vector to its origin."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.errors import UserError
from model.inference.sentence_vectors import SentenceVectors, load_any_bundle, sentence_vectors
from model.runs.bundles import find_bundle
from services.models.origin import Origin
from services.models.registry import UNREGISTERED, ModelVersion, Registry

Floats = NDArray[np.float32]
TEXT = "The dog sees the man."  # what every new encoder must read
logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class LoadedEncoder:
    """A loaded encoder. Immutable: it is only replaced as a whole."""

    vectors: SentenceVectors
    origin: Origin

    def encode(self, texts: Sequence[str], _nbest: int = 1) -> list[Floats]:
        """Returns one vector per text."""
        return list(self.vectors(texts))

    def facts(self) -> dict[str, Any]:
        """Returns the facts for /status beside the origin."""
        return {"width": self.vectors.width}


class EncoderLoader:
    """Loads the encoder that `serve.encoder` names."""

    def __init__(self, registry: Registry, runs: Path, device: str) -> None:
        self.registry = registry
        self.runs = runs
        self.device = device

    def load(self, reference: str) -> LoadedEncoder:
        """Loads the bundle of a directory or a run.

        Raises:
            UserError: an unknown name, or a bundle without sentence vectors.
        """
        directory = find_bundle(reference, self.runs, self.registry.cache)
        if directory is None:
            raise UserError(
                f"serve.encoder: {reference!r} is neither a bundle's directory nor models:/NAME@ALIAS nor a finished "
                f"run in {self.runs}"
            )
        return self._load(directory)

    def load_version(self, version: ModelVersion) -> LoadedEncoder:
        """Loads a version of the registry through the cache."""
        return self._load(self.registry.fetch(version), version)

    def _load(self, directory: Path, version: ModelVersion = UNREGISTERED) -> LoadedEncoder:
        bundle = load_any_bundle(directory)
        served = LoadedEncoder(sentence_vectors(bundle, self.device), Origin.of(bundle, version))
        served.encode([TEXT])  # warms up, and refuses broken weights
        logger.info("%s, version %s, is loaded", served.origin.name, served.origin.version)
        return served
