"""Alignment maps: which source words a network looked at for each target word, and the links that follow.

Letters: L layers, H heads, S source tokens and T rows of the target (the end of sentence among both), U source and W
target words.

Row t of an attention is made before target token t is known: its input is token t - 1. So there are two readings:

    output   token t is aligned by row t, which produces it (Bahdanau et al. 2015, figure 3)
    input    token t is aligned by row t + 1, which reads it (Chen et al. 2020, "Accurate Word Alignment Induction from
             Neural Machine Translation"): the network knows by then what it has written
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from model.errors import UserError
from model.ranges import Share, check_ranges

Reading = Literal["output", "input"]
READINGS: tuple[Reading, ...] = ("output", "input")
Weights = NDArray[np.float32]
Link = tuple[int, int]  # source and target word, counted from 0

END = "</s>"  # the last row and the last column of every map


@dataclass
class AlignmentConfig:
    """Which attention is shown, and how."""

    head: str = "auto"  # auto, mean, l3 (a layer's mean), l3h2; counted from 0
    reading: Literal["auto", "output", "input"] = "auto"  # which row stands for a target token
    units: Literal["words", "tokens"] = "words"
    threshold: Share = 0.0  # also link what has at least this weight; 0: the heaviest of each target word only

    def check(self) -> None:
        """Refuse values that no network could make good.

        Raises:
            UserError: names the key and the value.
        """
        check_ranges("alignment", self)
        if self.head not in ("auto", "mean") and not Head.PATTERN.fullmatch(self.head):
            raise UserError(f"alignment.head: {self.head!r} is not known. Choices: auto, mean, l0 (a layer), l0h1")


@dataclass(frozen=True)
class Head:
    """One head of a decoder layer; without a head the layer's mean, without both the mean of all. Counted from 0."""

    layer: int | None = None
    head: int | None = None

    PATTERN = re.compile(r"l(\d+)(?:h(\d+))?")

    def __str__(self) -> str:
        if self.layer is None:
            return "mean"
        return f"l{self.layer}" if self.head is None else f"l{self.layer}h{self.head}"

    @staticmethod
    def of(name: str, layers: int, heads: int) -> "Head":
        """The head of a name as `str` writes it.

        Raises:
            UserError: a name of another form, or a layer or head that the network has not got.
        """
        found = Head.PATTERN.fullmatch(name)
        if name == "mean":
            return Head()
        if found is None or int(found[1]) >= layers or int(found[2] or 0) >= heads:
            raise UserError(
                f"alignment.head: {name!r}: the network has {layers} decoder layers of {heads} heads. "
                f"Choices: auto, mean, l0 to l{layers - 1}, l0h0 to l{layers - 1}h{heads - 1}"
            )
        return Head(int(found[1]), None if found[2] is None else int(found[2]))

    def of_all(self, weights: Weights) -> Weights:
        """Its weights (T, S) of those of every head (L, H, T, S)."""
        layers = weights if self.layer is None else weights[self.layer, None]  # (1 or L, H, T, S)
        found: Weights = layers.mean((0, 1)) if self.head is None else layers[0, self.head]
        return found


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The attention of one sentence, ready to be shown.

    The end of sentence stands last on both sides; a target as long as the network's positions has none.
    """

    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    weights: Weights  # (T, S), rows sum to 1
    head: str  # whose: "l3h2", "l3", "mean"
    reading: Reading
    threshold: float = 0.0

    @property
    def pairs(self) -> list[Link]:
        """(source, target) of every link, sorted; the ends of sentence have none."""
        rows, columns = (len(tokens) - (tokens[-1:] == (END,)) for tokens in (self.target_tokens, self.source_tokens))
        found = links(self.weights[:rows, :columns], self.threshold)
        return sorted((int(source), int(target)) for target, source in np.argwhere(found))

    def record(self) -> dict[str, Any]:
        """Plain values for JSON; weights to four digits."""
        return {
            "source_tokens": list(self.source_tokens),
            "target_tokens": list(self.target_tokens),
            "alignment": [list(pair) for pair in self.pairs],
            "weights": [[round(float(weight), 4) for weight in row] for row in self.weights],
            "head": self.head,
            "reading": self.reading,
        }


def links(weights: Weights, threshold: float = 0.0) -> NDArray[np.bool_]:
    """(..., W, U): which source words each target word is linked to, by weights without the ends of sentence.

    The heaviest (of equal ones the first), and with a threshold every other of at least that weight. A target word
    that looked at nothing (a row of zeros) has no link.
    """
    found = np.zeros(weights.shape, bool)
    if not weights.size:
        return found
    np.put_along_axis(found, weights.argmax(-1)[..., None], True, -1)
    if threshold > 0.0:
        found |= weights >= threshold
    return found & (weights > 0.0)


def pharaoh(pairs: Sequence[Link]) -> str:
    """`0-0 1-2`: source and target word of each link, counted from 0 (the format of Pharaoh, Moses and fast_align)."""
    return " ".join(f"{source}-{target}" for source, target in pairs)


def read(weights: Weights, reading: Reading) -> Weights:
    """(..., T, S) with row t what is read for target token t; the last row stands for itself in both readings."""
    if reading == "output":
        return weights
    return np.concatenate([weights[..., 1:, :], weights[..., -1:, :]], -2)
