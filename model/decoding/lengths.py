"""Texts by their length: cut to the network's positions, and gathered in batches."""

from collections.abc import Iterator, Sequence

import numpy as np

from dragoman.model.errors import UserError
from dragoman.model.text.tokenizer import EOS


def fit(
    rows: Sequence[np.ndarray],
    positions: int | None,
    too_long: str,
    names: Sequence[str] = (),
    side: str = "text",
    keys: Sequence[str] = ("decode.too_long",),
) -> list[np.ndarray]:
    """Returns each row of ids if the network has a position for each, else its beginning and the end of sentence.

    `names` (default: sentence 1, 2 ...) and `side` (source, target or text) name a row in the message, `keys` are the
    settings that cut it.
    """
    most = max(map(len, rows), default=0) if positions is None else positions
    for number, ids in enumerate(rows):
        if len(ids) > most and too_long == "error":
            name = names[number] if names else f"sentence {number + 1}"
            places = "positions" if side == "text" else f"{side} positions"
            raise UserError(
                f"{name}: the {side} has {len(ids)} tokens, more than the model's {most} {places}; "
                f"split it, or have its beginning read: {' or '.join(f'{key}=truncate' for key in keys)}"
            )
    return [
        ids if len(ids) <= most else np.concatenate([ids[: most - 1], np.asarray([EOS], ids.dtype)]) for ids in rows
    ]


def length_batches(budget: int, most: int, *lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yields row numbers in batches of similar length: up to `most` rows and `budget` tokens with padding.

    `lengths` of the rows, or of each side of them. A batch has at least one row. Longest first, so that the batch that
    needs most memory comes at once.
    """
    sizes = list(zip(*lengths, strict=True))
    batch: list[int] = []
    width = [0] * len(lengths)
    for row in sorted(range(len(sizes)), key=lambda row: (-max(sizes[row]), -sizes[row][0], row)):
        wider = list(map(max, width, sizes[row]))
        if batch and (len(batch) == most or (len(batch) + 1) * sum(wider) > budget):
            yield batch
            batch, wider = [], list(sizes[row])
        batch.append(row)
        width = wider
    if batch:
        yield batch
