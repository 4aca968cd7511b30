"""The file of a reranker's weights: readable JSON, with the data that they were tuned on."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_write
from dragoman.services.commands.output import file_errors

KIND, FORMAT_VERSION = "rerank-weights", 1


@dataclass(frozen=True)
class Weights:
    """Feature name -> weight; the facts give their origin."""

    weights: dict[str, float]
    facts: dict[str, Any] = field(default_factory=dict)

    def score(self, features: Mapping[str, float]) -> float:
        """Returns the weighted sum; a missing feature counts as 0, like Moses' sparse ones."""
        return sum(weight * features.get(name, 0.0) for name, weight in self.weights.items())

    def save(self, path: Path) -> None:
        """Writes the file atomically."""
        record = {"kind": KIND, "format_version": FORMAT_VERSION, "weights": self.weights, **self.facts}
        with file_errors("rerank.tune", path):
            atomic_write(path, json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def load_weights(path: str) -> Weights:
    """Loads the weights in a file."""
    try:
        with file_errors("rerank.weights", path, "read"):
            record = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as problem:
        raise UserError(f"rerank.weights: {path} is not JSON ({problem})") from None
    if not isinstance(record, dict) or record.get("kind") != KIND:
        raise UserError(f"rerank.weights: {path} is no file of weights (dragoman rerank rerank.tune={path} writes one)")
    if record.get("format_version") != FORMAT_VERSION:
        raise UserError(
            f"rerank.weights: {path} has the format version {record.get('format_version')!r}; known: {FORMAT_VERSION}"
        )
    weights = record.get("weights")
    if not isinstance(weights, dict) or not weights:
        raise UserError(f"rerank.weights: {path} holds no weights")
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
            raise UserError(f"rerank.weights: {path}: the weight of {name!r} is {weight!r}, not a finite number")
    facts = {key: value for key, value in record.items() if key not in ("kind", "format_version", "weights")}
    return Weights({name: float(weight) for name, weight in weights.items()}, facts)
