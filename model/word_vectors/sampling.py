"""word2vec's sampling: subsampling of frequent words, and negatives. V words, most frequent first."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


def keep_probability(counts: NDArray[Any], sample: float) -> NDArray[np.float64]:
    """Returns (V,) the probability that an occurrence stays in the text; 1 for all if `sample` is 0.

    As in the original tool: (sqrt(f / t) + 1) t / f with f the word's share of the text and t = `sample`, slightly more
    than the sqrt(t / f) of Mikolov et al. 2013b, equation 5.
    """
    if sample <= 0:
        return np.ones(len(counts))
    excess = np.asarray(counts, dtype=np.float64) / (float(np.sum(counts)) * sample)  # f / t
    return np.minimum(1.0, (np.sqrt(excess) + 1) / excess)


@dataclass(frozen=True)
class AliasTable:
    """A distribution over V rows; one draw costs two look-ups (Walker 1977, Vose 1991).

    A draw picks a row r uniformly, keeps it with probability `thresholds[r]`, and else takes `aliases[r]`.
    """

    thresholds: NDArray[np.float64]  # (V,) in [0, 1]
    aliases: NDArray[np.int32]  # (V,)

    @classmethod
    def of(cls, counts: NDArray[Any], exponent: float) -> "AliasTable":
        """Makes the table of rows in proportion to counts ** exponent (0.75: Mikolov et al. 2013b; 0: uniform)."""
        weights = np.asarray(counts, dtype=np.float64)
        weights = (weights / weights.max()) ** exponent  # no overflow, whatever the exponent
        shares = (weights * (len(weights) / weights.sum())).tolist()
        aliases = list(range(len(shares)))
        small = [row for row, share in enumerate(shares) if share < 1]
        large = [row for row, share in enumerate(shares) if share >= 1]
        while small and large:  # fills each small row from a large one
            row, giver = small.pop(), large[-1]
            aliases[row] = giver
            shares[giver] -= 1 - shares[row]
            if shares[giver] < 1:
                small.append(large.pop())
        for row in small + large:  # left over by rounding
            shares[row] = 1.0
        return cls(np.array(shares), np.array(aliases, dtype=np.int32))

    def probabilities(self) -> NDArray[np.float64]:
        """Returns (V,), the distribution itself."""
        chances = self.thresholds.copy()
        np.add.at(chances, self.aliases, 1 - self.thresholds)
        return chances / len(chances)


def as_bits(probability: NDArray[np.float64]) -> NDArray[np.uint32]:
    """Returns probabilities as thresholds for 32 random bits: `bits <= threshold`; 1 always holds, 0 once in 2^32."""
    return np.clip(np.round(probability * 2.0**32) - 1, 0, 2**32 - 1).astype(np.uint32)
