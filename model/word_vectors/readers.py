"""Word vectors that other programs have written, in the formats of the word2vec tool and of GloVe.

word2vec text    a line `V d`, then a line per word: the word and d numbers (fastText's .vec too)
GloVe            the same without the first line
word2vec binary  the first line, then each word, a space and d little-endian float32

A file may be compressed (gzip, xz, bzip2, zstd) or the one member of a zip. V words, d width.
"""

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
from dragoman.model.word_vectors.embeddings import ReadVectors

LONGEST = 1 << 20  # bytes of a line or word
MOST_NUMBERS = 1 << 33  # of a table that a file may announce


def read_vectors(path: Path) -> ReadVectors:
    """Returns the word vectors in a file, whatever its format, without repeated words and special pieces."""
    with opened(path) as file:
        return distinct(read_file(path, file))


def read_file(path: Path, file: BinaryIO) -> ReadVectors:
    """Returns the words and vectors of a file by its first bytes."""
    start = file.peek(LONGEST)  # type: ignore[attr-defined]  # of a BufferedReader
    if start[:1] in (b"\x80", b"PK"):
        raise UserError(f"{path}: looks like a pickle, which can run any code; export it as text")
    line, _, rest = start.partition(b"\n")
    first, second = line.split(), rest.partition(b"\n")[0]
    if len(first) != 2 or not all(word.isdigit() for word in first):
        if is_text_row(line, len(first) - 1):
            return read_text(path, file, len(first) - 1, "GloVe", 1, None)
        raise UserError(f"{path}: no word vectors; formats: word2vec text or binary, fastText .vec, GloVe")
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
    return ReadVectors(list(rows), vectors.vectors[kept], vectors.format, len(vectors.words) - len(kept))


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
    for number, text in enumerate(iter(lambda: file.readline(LONGEST), b""), line):
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


def read_word(file: BinaryIO, problem: str) -> bytes:
    """Returns the bytes up to a space."""
    word = bytearray()
    while (letter := file.read(1)) != b" ":
        if not letter or len(word) > LONGEST:
            raise UserError(problem)
        word += letter
    return bytes(word)


def read_binary(path: Path, file: BinaryIO, count: int, width: int) -> ReadVectors:
    """Reads the word2vec tool's binary rows, with or without a line break between them."""
    words, vectors = [], np.empty((count, width), np.float32)
    for row in range(count):
        problem = f"{path}: word {row + 1:,} of {count:,}: the file is cut off"
        word = read_word(file, f"{problem}, or no word2vec binary")
        numbers = file.read(4 * width)
        if len(numbers) < 4 * width:
            raise UserError(problem)
        words.append(word.lstrip(b"\n").decode("utf-8", "replace"))
        vectors[row] = np.frombuffer(numbers, "<f4")
    return ReadVectors(words, vectors, "word2vec binary")
