"""Sources by their length: cut to the network's positions, and gathered in batches."""

from collections.abc import Iterator, Sequence

import numpy as np

from dragoman.model.errors import UserError
from dragoman.model.text.tokenizer import EOS


def fit(ids: np.ndarray, number: int, positions: int, too_long: str) -> np.ndarray:
    """Returns the ids if the network has a position for each, else their beginning and the end of sentence."""
    if len(ids) <= positions:
        return ids
    if too_long == "error":
        raise UserError(
            f"sentence {number + 1}: {len(ids)} tokens are more than the model's {positions} source positions; "
            f"split it, or set decode.too_long=truncate"
        )
    return np.concatenate([ids[: positions - 1], np.asarray([EOS], ids.dtype)])


def length_batches(lengths: Sequence[int], budget: int, most: int) -> Iterator[list[int]]:
    """Yields row numbers in batches of similar length: up to `most` rows and `budget` tokens with padding.

    A batch has at least one row. Longest first, so that the batch that needs most memory comes at once.
    """
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    start = 0
    while start < len(order):
        count = max(1, min(most, budget // max(1, lengths[order[start]])))
        yield order[start : start + count]
        start += count
