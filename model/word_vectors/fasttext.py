"""fastText's own model file (.bin): words, and the rows of their runs of letters (Bojanowski et al. 2017).

    int32 magic, version      11 or 12
    12 x int32, float64       the training's settings, of which width, buckets and lengths of runs are read
    dictionary                sizes, then each word: text ended by 0, int64 count, int8 kind (1: a label)
    input matrix              (words + buckets, d) float32, rows of words first

A word's vector is the mean of its own row and its runs' rows, as fastText prints it. gensim's reader never ends on a
file that is cut off, and refuses models with labels.
"""

import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.word_vectors.read_rows import LONGEST, MOST_NUMBERS, ReadVectors
from dragoman.model.word_vectors.subwords import Subwords

MAGIC = (793712314).to_bytes(4, "little")
VERSIONS = 11, 12
SETTINGS = "<12id"


def read_fasttext(path: Path, file: BinaryIO) -> ReadVectors:
    """Returns the vectors of a model's words, and the table of runs for other words."""
    _, version = _numbers(path, file, "<2i")
    if version not in VERSIONS:
        raise UserError(f"{path}: fastText's format {version}; known are {' and '.join(map(str, VERSIONS))}")
    width, *_, buckets, shortest, longest, _, _ = _numbers(path, file, SETTINGS)
    size, count, _ = _numbers(path, file, "<3i")
    _, pruned = _numbers(path, file, "<2q")
    words, counts = _dictionary(path, file, size)
    (compressed,) = _numbers(path, file, "<?")
    if compressed or pruned > 0:
        raise UserError(f"{path}: is a compressed model (.ftz); import the .bin or .vec that it was made of")
    rows, columns = _numbers(path, file, "<2q")
    if columns != width or rows < count or not 0 < rows * columns <= MOST_NUMBERS:
        raise UserError(f"{path}: a matrix of {rows:,} x {columns:,} for {count:,} words of {width} numbers")
    matrix = _matrix(path, file, rows, columns)
    vectors = matrix[:count].copy()
    if longest <= 0 or rows == count:
        return ReadVectors(words[:count], vectors, "fastText", counts[:count])
    if rows != count + buckets:
        raise UserError(f"{path}: {rows:,} rows for {count:,} words and {buckets:,} runs of letters")
    subwords = Subwords(matrix[count:], shortest, longest)
    for row, word in enumerate(words[:count]):
        own = np.fromiter(subwords.rows(word), np.int64)
        vectors[row] = (matrix[row] + subwords.table[own].sum(0, dtype=np.float64)) / (len(own) + 1)
    return ReadVectors(words[:count], vectors, "fastText", counts[:count], subwords)


def _dictionary(path: Path, file: BinaryIO, size: int) -> tuple[list[str], NDArray[np.int64]]:
    words, counts = [], []
    for number in range(size):
        word = bytearray()
        while (letter := file.read(1)) != b"\0":
            if not letter or len(word) > LONGEST:
                raise UserError(
                    f"{path}: word {number + 1:,} of {size:,}: the file is cut off, or no model of fastText"
                )
            word += letter
        words.append(word.decode("utf-8", "replace"))
        counts.append(_numbers(path, file, "<qb")[0])
    return words, np.array(counts, np.int64)


def _matrix(path: Path, file: BinaryIO, rows: int, columns: int) -> NDArray[np.float32]:
    found = np.empty((rows, columns), np.float32)
    rest = found.data.cast("B")
    while rest:
        read = file.readinto(rest)  # type: ignore[attr-defined]  # of a BufferedReader
        if not read:
            raise UserError(f"{path}: the matrix of {rows:,} x {columns:,} is cut off")
        rest = rest[read:]
    return found


def _numbers(path: Path, file: BinaryIO, form: str) -> tuple[int, ...]:
    data = file.read(struct.calcsize(form))
    try:
        return struct.unpack(form, data)
    except struct.error:
        raise UserError(f"{path}: the file is cut off, or no model of fastText") from None
