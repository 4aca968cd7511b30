"""A loaded encoder of texts, and the facts that trace a vector to its origin."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dragoman.services.models.named_loader import NamedLoader
from dragoman.services.models.origin import Origin
from dragoman.services.models.registry import ModelVersion

if TYPE_CHECKING:
    from dragoman.model.inference.sentence_vectors import SentenceVectors

Floats = NDArray[np.float32]
TEXT = "The dog sees the man."  # what every new encoder must read
BATCH_TOKENS = 8192  # many clients' texts at once: speed before equal last bits


@dataclass(frozen=True, eq=False)
class LoadedEncoder:
    """A loaded encoder. Immutable: it is only replaced as a whole."""

    vectors: "SentenceVectors"
    origin: Origin

    def encode(self, texts: Sequence[str], _nbest: int = 1) -> list[Floats]:
        """Returns one vector per text."""
        return list(self.vectors(texts))

    def facts(self) -> dict[str, Any]:
        """Returns the facts for /status beside the origin."""
        return {"width": self.vectors.width}


class EncoderLoader(NamedLoader[LoadedEncoder]):
    """Loads the encoder that `serve.encoder` names."""

    key = "serve.encoder"

    def open(self, directory: Path, version: ModelVersion) -> LoadedEncoder:
        """Opens a bundle with sentence vectors."""
        from dragoman.model.inference.sentence_vectors import load_any_bundle, sentence_vectors  # loads torch

        bundle = load_any_bundle(directory)
        served = LoadedEncoder(
            sentence_vectors(bundle, self.device, batch_tokens=BATCH_TOKENS), Origin.of(bundle, version)
        )
        served.encode([TEXT])  # warms up, and refuses broken weights
        return served
