"""Word vectors that other programs have written: the formats of `read_rows`, `read_folders` and `fasttext`.

A file may be compressed (gzip, xz, bzip2, zstd) or the one member of a zip. V words, d width.

fastText's own model file (.bin): words, and the rows of their runs of letters (Bojanowski et al. 2017).

    int32 magic, version      11 or 12
    12 x int32, float64       the training's settings, of which width, buckets and lengths of runs are read
    dictionary                sizes, then each word: text ended by 0, int64 count, int8 kind (1: a label)
    input matrix              (words + buckets, d) float32, rows of words first

A word's vector is the mean of its own row and its runs' rows, as fastText prints it. gensim's reader never ends on a
file that is cut off, and refuses models with labels.
"""

import struct
import zipfile
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.inputs.archive import files_in, unpacked
from dragoman.model.inputs.compression import check_expansion
from dragoman.model.inputs.streams import Blocks
from dragoman.model.text.tokenizer import SPECIAL_PIECES
from dragoman.model.word_vectors.read_folders import read_folder, read_npz
from dragoman.model.word_vectors.read_rows import (
    LONGEST,
    MOST_NUMBERS,
    ReadVectors,
    is_text_row,
    read_binary,
    read_text,
    read_word,
)
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
        problem = f"{path}: word {number + 1:,} of {size:,}: the file is cut off, or no model of fastText"
        words.append(read_word(file, b"\0", problem).decode("utf-8", "replace"))
        counts.append(_numbers(path, file, "<qb")[0])
    return words, np.array(counts, np.int64)


def _matrix(path: Path, file: BinaryIO, rows: int, columns: int) -> NDArray[np.float32]:
    matrix = np.empty((rows, columns), np.float32)
    rest = matrix.data.cast("B")
    while rest:
        read = file.readinto(rest)  # type: ignore[attr-defined]  # of a BufferedReader
        if not read:
            raise UserError(f"{path}: the matrix of {rows:,} x {columns:,} is cut off")
        rest = rest[read:]
    return matrix


def _numbers(path: Path, file: BinaryIO, form: str) -> tuple[int, ...]:
    data = file.read(struct.calcsize(form))
    try:
        return struct.unpack(form, data)
    except struct.error:
        raise UserError(f"{path}: the file is cut off, or no model of fastText") from None


def read_vectors(path: Path) -> ReadVectors:
    """Returns the word vectors in a file or folder, whatever its format, without repeated words and special pieces.

    Raises UserError: no such format, a damaged file, a row that does not fit (names the line), or no words.
    """
    if path.is_dir():
        return distinct(read_folder(path))
    if path.suffix == ".npz":
        return distinct(read_npz(path))
    with opened(path) as file:
        return distinct(read_file(path, file))


def read_file(path: Path, file: BinaryIO) -> ReadVectors:
    """Returns the words and vectors of a file by its first bytes."""
    start = file.peek(LONGEST)  # type: ignore[attr-defined]  # of a BufferedReader
    if start[:4] == MAGIC:
        return read_fasttext(path, file)
    if start[:1] in (b"\x80", b"PK"):
        raise UserError(f"{path}: looks like a pickle, which can run any code; export it as text or numpy")
    line, _, rest = start.partition(b"\n")
    first, second = line.split(), rest.partition(b"\n")[0]
    if len(first) != 2 or not all(word.isdigit() for word in first):
        if is_text_row(line, len(first) - 1):
            return read_text(path, file, len(first) - 1, "GloVe", 1, None)
        raise UserError(f"{path}: no word vectors; formats: word2vec text or binary, fastText .vec or .bin, GloVe, npz")
    file.readline(LONGEST)
    count, width = map(int, first)
    if not 0 < count * width <= MOST_NUMBERS:
        raise UserError(f"{path}: line 1 announces {count} words of {width} numbers")
    if is_text_row(second, width):
        return read_text(path, file, width, "word2vec text", 2, count)
    if is_printable(second):
        raise UserError(
            f"{path}: line 2: not a word and {width} numbers between blanks or tabs, with decimal points (0.12)"
        )
    return read_binary(path, file, count, width)


def is_printable(line: bytes) -> bool:
    """Returns True for a line of text; word2vec's binary numbers hold control characters or no letters at all."""
    try:
        return line.rstrip().replace(b"\t", b" ").decode().isprintable()
    except UnicodeDecodeError:
        return False


def opened(path: Path) -> BinaryIO:
    """Returns the unpacked content of a file."""
    if not zipfile.is_zipfile(path):
        return Blocks.of(path)
    archive = zipfile.ZipFile(path)
    names = files_in(archive)
    if len(names) != 1:
        listed = ", ".join(name.filename for name in names[:8]) or "none"
        raise UserError(f"{path}: one member is needed, {len(names)} found ({listed}); unpack one and name it")
    check_expansion(path, names[0].file_size)
    return Blocks.from_blocks(unpacked(archive.open(names[0]), names[0]))


def distinct(vectors: ReadVectors) -> ReadVectors:
    """Returns the vectors without repeated words and special pieces; the first of two equal words stays."""
    rows: dict[str, int] = {}
    for row, word in enumerate(vectors.words):
        if word and word not in SPECIAL_PIECES:
            rows.setdefault(word, row)
    kept = np.fromiter(rows.values(), np.int64, len(rows))
    counts = None if vectors.counts is None else vectors.counts[kept]
    return ReadVectors(
        list(rows), vectors.vectors[kept], vectors.format, counts, vectors.subwords, len(vectors.words) - len(kept)
    )
