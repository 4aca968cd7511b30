"""Alignment maps: which source words a network attends to for each target word, and the links that follow.

Letters: L layers, H heads, S source tokens, T target rows (both count the end of sentence), U source words, W target
words.

Row t of an attention is computed before target token t is known: its input is token t - 1. So there are two readings:

    output   token t is aligned by row t, which produces it (Bahdanau et al. 2015, figure 3)
    input    token t is aligned by row t + 1, which reads it (Chen et al. 2020, "Accurate Word Alignment Induction from
             Neural Machine Translation"): the network has then seen the token that it wrote
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.settings import HEAD

Reading = Literal["output", "input"]
Weights = NDArray[np.float32]
Link = tuple[int, int]  # source and target word, counted from 0

END = "</s>"  # the last row and the last column of every map


@dataclass(frozen=True)
class Head:
    """One head of a decoder layer. Without `head`: the layer's mean; without both: the mean of all. Counted from 0."""

    layer: int | None = None
    head: int | None = None

    def __str__(self) -> str:
        if self.layer is None:
            return "mean"
        return f"l{self.layer}" if self.head is None else f"l{self.layer}h{self.head}"

    @staticmethod
    def of(name: str, layers: int, heads: int) -> "Head":
        """Returns the head with this name, in the form that `str` writes."""
        match = HEAD.fullmatch(name)
        if name == "mean":
            return Head()
        if match is None or int(match[1]) >= layers or int(match[2] or 0) >= heads:
            raise UserError(
                f"alignment.head: {name!r}: the network has {layers} decoder layers of {heads} heads. "
                f"Choices: auto, mean, l0 to l{layers - 1}, l0h0 to l{layers - 1}h{heads - 1}"
            )
        return Head(int(match[1]), None if match[2] is None else int(match[2]))

    def select(self, weights: Weights) -> Weights:
        """Returns this head's weights (T, S), selected from those of every head (L, H, T, S)."""
        layers = weights if self.layer is None else weights[self.layer, None]  # (1 or L, H, T, S)
        chosen: Weights = layers.mean((0, 1)) if self.head is None else layers[0, self.head]
        return chosen


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The attention of one sentence, ready to show.

    Both sides end with the end of sentence, except a target that fills all of the network's positions.
    """

    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    weights: Weights  # (T, S), rows sum to 1
    head: str  # the head shown: "l3h2", "l3", "mean"
    reading: Reading
    threshold: float = 0.0

    @property
    def pairs(self) -> list[Link]:
        """Returns the (source, target) pair of every link, sorted; the ends of sentence have no links."""
        rows, columns = (len(tokens) - (tokens[-1:] == (END,)) for tokens in (self.target_tokens, self.source_tokens))
        linked = links(self.weights[:rows, :columns], self.threshold)
        return sorted((int(source), int(target)) for target, source in np.argwhere(linked))

    def values(self) -> dict[str, Any]:
        """Returns the map for another process, as JSON."""
        shape, weights = self.weights.shape, base64.b64encode(self.weights.astype("<f4").tobytes()).decode()
        return {**vars(self), "weights": [*shape, weights]}

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> "AttentionMap":
        rows, columns, content = values["weights"]
        weights = np.frombuffer(base64.b64decode(content), "<f4").reshape(rows, columns)
        sides = {name: tuple(values[name]) for name in ("source_tokens", "target_tokens")}
        return cls(**{**values, **sides, "weights": weights})

    def record(self) -> dict[str, Any]:
        """Returns plain values for JSON, with weights rounded to four digits."""
        return {
            "source_tokens": list(self.source_tokens),
            "target_tokens": list(self.target_tokens),
            "alignment": [list(pair) for pair in self.pairs],
            "weights": [[round(float(weight), 4) for weight in row] for row in self.weights],
            "head": self.head,
            "reading": self.reading,
        }


def links(weights: Weights, threshold: float = 0.0) -> NDArray[np.bool_]:
    """Returns (..., W, U): the source words that each target word links to. `weights` exclude the ends of sentence.

    Links the heaviest source word (the first of equal ones), and with a threshold every other of at least that weight.
    A target word that attends to nothing (a row of zeros) has no link.
    """
    linked = np.zeros(weights.shape, bool)
    if not weights.size:
        return linked
    np.put_along_axis(linked, weights.argmax(-1)[..., None], True, -1)
    if threshold > 0.0:
        linked |= weights >= threshold
    return linked & (weights > 0.0)


def read(weights: Weights, reading: Reading) -> Weights:
    """Returns (..., T, S), where row t belongs to target token t; both readings keep the last row."""
    if reading == "output":
        return weights
    return np.concatenate([weights[..., 1:, :], weights[..., -1:, :]], -2)
