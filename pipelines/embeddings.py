"""The section `embeddings`: word vectors as the first values of a network's embedding tables."""

from dataclasses import dataclass


@dataclass
class EmbeddingsConfig:
    """Which word vectors a network starts from. A bundle's path, a run's name or models:/NAME@ALIAS; null: none."""

    source: str | None = None
    target: str | None = None
    freeze: bool = False  # leave the tables as they are while the rest is trained
