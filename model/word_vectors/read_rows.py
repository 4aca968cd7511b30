"""Word vectors as rows of a file: the formats of the word2vec tool and of GloVe.

word2vec text    a line `V d`, then a line per word: the word and d numbers (fastText's .vec too)
GloVe            the same without the first line
word2vec binary  the first line, then each word, a space and d little-endian float32
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.word_vectors.subwords import Subwords

LONGEST = 1 << 20  # bytes of a line or word
MOST_NUMBERS = 1 << 33  # of a table that a file may announce


@dataclass
class ReadVectors:
    """The words of a file and their vectors, in its order: the most frequent first in all of these formats."""

    words: list[str]
    vectors: NDArray[np.float32]  # (V, d)
    format: str
    counts: NDArray[np.int64] | None = None  # None: the format has none
    subwords: Subwords | None = None  # for other words; None: the format has none
    dropped: int = field(default=0)  # repeated words and those that mean something to a tokenizer, such as </s>


def is_text_row(line: bytes, width: int) -> bool:
    """Returns True for a word and `width` numbers."""
    parts = columns(line, width)
    try:
        return width > 0 and len(parts) == width + 1 and all(np.isfinite(float(part)) for part in parts[1:])
    except ValueError:
        return False


def columns(line: bytes, width: int) -> list[bytes]:
    """Returns the word and the numbers of a row, between blanks or tabs."""
    line = line.rstrip()
    return line.rsplit(b"\t" if line.count(b"\t") >= width else b" ", width)


def read_text(path: Path, file: BinaryIO, width: int, form: str, line: int, count: int | None) -> ReadVectors:
    """Reads a line per word from line number `line` on; a word may hold spaces, as some of GloVe's do."""
    words: list[str] = []
    rows: list[NDArray[np.float32]] = []
    for number, text in enumerate(iter_lines(file), line):
        parts = columns(text, width)
        try:
            words.append(parts[0].decode("utf-8", "replace"))
            row = np.array(parts[1:], np.float64).astype(np.float32)
        except ValueError:
            raise UserError(f"{path}: line {number}: not a word and {width} numbers") from None
        if len(row) != width:
            raise UserError(f"{path}: line {number}: {len(parts) - 1} numbers, the first row has {width}")
        rows.append(row)
    if count is not None and count != len(words):
        end = "; the file is cut off" if count > len(words) else ""
        raise UserError(f"{path}: line 1 announces {count:,} words, there are {len(words):,}{end}")
    return ReadVectors(words, np.stack(rows), form)


def iter_lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(LONGEST):
        yield line


def read_word(file: BinaryIO, end: bytes, problem: str) -> bytes:
    """Returns the bytes up to `end`. Raises UserError: there is no `end`; `problem` is the message."""
    word = bytearray()
    while (letter := file.read(1)) != end:
        if not letter or len(word) > LONGEST:
            raise UserError(problem)
        word += letter
    return bytes(word)


def read_binary(path: Path, file: BinaryIO, count: int, width: int) -> ReadVectors:
    """Reads the word2vec tool's binary rows, with or without a line break between them."""
    words, vectors = [], np.empty((count, width), np.float32)
    for row in range(count):
        problem = f"{path}: word {row + 1:,} of {count:,}: the file is cut off"
        word = read_word(file, b" ", f"{problem}, or no word2vec binary")
        numbers = file.read(4 * width)
        if len(numbers) < 4 * width:
            raise UserError(problem)
        words.append(word.lstrip(b"\n").decode("utf-8", "replace"))
        vectors[row] = np.frombuffer(numbers, "<f4")
    return ReadVectors(words, vectors, "word2vec binary")
