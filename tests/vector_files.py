"""Readers of the formats that word vectors are written in for other programs."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def text(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Reads the text format as its documentation has it."""
    first, *lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    rows = [line.split(" ") for line in lines]
    assert first == f"{len(rows)} {len(rows[0]) - 1}"
    return [row[0] for row in rows], np.array([row[1:] for row in rows], np.float64).astype(np.float32)


def binary(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Reads the binary format as its documentation has it."""
    first, _, rest = path.read_bytes().partition(b"\n")
    count, width = map(int, first.split())
    words, rows = [], []
    for _ in range(count):
        word, _, rest = rest.partition(b" ")
        words.append(word.decode())
        rows.append(np.frombuffer(rest[: 4 * width], "<f4"))
        assert rest[4 * width : 4 * width + 1] == b"\n"
        rest = rest[4 * width + 1 :]
    assert not rest
    return words, np.stack(rows)
