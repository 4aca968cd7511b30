"""Word vectors that other programs have written.

    word2vec text    a line `V d`, then a line per word: the word and d numbers (fastText's .vec too)
    GloVe            the same without the first line
    word2vec binary  the first line, then each word, a space and d little-endian float32
    numpy            a folder with vectors.npy (V, d) and vocabulary.json {"words", "counts"?}, as our export writes it

A file may be compressed (gzip, xz, bzip2, zstd) or the one member of a zip. V words, d width.
"""

import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from model.errors import UserError
from model.inputs.compression import check_expansion
from model.inputs.streams import Blocks
from model.text.tokenizer import SPECIAL_PIECES

LONGEST = 1 << 20  # bytes of a line or word
MOST_NUMBERS = 1 << 33  # of a table that a first line may announce
FASTTEXT = (793712314).to_bytes(4, "little")  # how fastText's .bin begins


@dataclass
class ReadVectors:
    """The words of a file and their vectors, in its order: the most frequent first in all of these formats."""

    words: list[str]
    vectors: NDArray[np.float32]  # (V, d)
    format: str
    counts: NDArray[np.int64] | None = None  # None: the format has none
    dropped: int = field(default=0)  # repeated words and those that mean something to a tokenizer, such as </s>


def read_vectors(path: Path) -> ReadVectors:
    """Returns the word vectors in a file or folder, whatever its format.

    Raises:
        UserError: no such format, a damaged file, a row that does not fit (names the line), or no words.
    """
    if path.is_dir():
        return distinct(read_numpy(path))
    with opened(path) as file:
        start = file.peek(LONGEST)  # type: ignore[attr-defined]  # of a BufferedReader
        if start[:4] == FASTTEXT:
            raise UserError(f"{path}: is fastText's own model; import the .vec file that fastText writes beside it")
        if start[:1] in (b"\x80", b"PK"):
            raise UserError(f"{path}: looks like a pickle, which can run any code; export it as text or numpy")
        first = start.partition(b"\n")[0].split()
        if len(first) == 2 and all(one.isdigit() for one in first):
            file.readline(LONGEST)
            count, width = map(int, first)
            if not 0 < count * width <= MOST_NUMBERS:
                raise UserError(f"{path}: line 1 announces {count} words of {width} numbers")
            if is_text_row(start.split(b"\n", 2)[1], width):
                return distinct(read_text(path, file, width, "word2vec text", 2, count))
            return distinct(read_binary(path, file, count, width))
        if not is_text_row(start.partition(b"\n")[0], len(first) - 1):
            raise UserError(f"{path}: no word vectors; formats: word2vec text or binary, fastText .vec, GloVe, numpy")
        return distinct(read_text(path, file, len(first) - 1, "GloVe", 1, None))


def opened(path: Path) -> BinaryIO:
    """Returns the unpacked content of a file.

    Raises:
        UserError: a zip without exactly one member, or a damaged file.
    """
    if not zipfile.is_zipfile(path):
        return Blocks.of(path)
    archive = zipfile.ZipFile(path)
    names = [one for one in archive.infolist() if not one.is_dir()]
    if len(names) != 1:
        listed = ", ".join(one.filename for one in names[:8]) or "none"
        raise UserError(f"{path}: one member is needed, {len(names)} found ({listed}); unpack one and name it")
    check_expansion(path, names[0].file_size)
    return Blocks.from_blocks(iter(partial(archive.open(names[0]).read, 1 << 20), b""))


def is_text_row(line: bytes, width: int) -> bool:
    """Returns True for a word and `width` numbers."""
    parts = line.rstrip().rsplit(b" ", width)
    try:
        return width > 0 and len(parts) == width + 1 and all(np.isfinite(float(one)) for one in parts[1:])
    except ValueError:
        return False


def read_text(path: Path, file: BinaryIO, width: int, form: str, line: int, count: int | None) -> ReadVectors:
    """Reads a line per word from line number `line` on; a word may hold spaces, as some of GloVe's do."""
    words: list[str] = []
    rows: list[NDArray[np.float32]] = []
    for number, text in enumerate(iter_lines(file), line):
        parts = text.rstrip(b"\r\n ").rsplit(b" ", width)
        try:
            words.append(parts[0].decode("utf-8", "replace"))
            row = np.array(parts[1:], np.float64).astype(np.float32)
        except ValueError:
            raise UserError(f"{path}: line {number}: not a word and {width} numbers") from None
        if len(row) != width:
            raise UserError(f"{path}: line {number}: {len(parts) - 1} numbers, the first row has {width}")
        rows.append(row)
    if count is not None and count != len(words):
        raise UserError(f"{path}: line 1 announces {count:,} words, there are {len(words):,}; the file is cut off")
    return ReadVectors(words, np.stack(rows), form)


def iter_lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(LONGEST):
        yield line


def read_binary(path: Path, file: BinaryIO, count: int, width: int) -> ReadVectors:
    """Reads the word2vec tool's binary rows, with or without a line break between them."""
    words, vectors = [], np.empty((count, width), np.float32)
    for row in range(count):
        word = bytearray()
        while (letter := file.read(1)) != b" ":
            if not letter or len(word) > LONGEST:
                raise UserError(f"{path}: word {row + 1} of {count:,}: the file is cut off, or no word2vec binary")
            word += letter
        numbers = file.read(4 * width)
        if len(numbers) < 4 * width:
            raise UserError(f"{path}: word {row + 1} of {count:,}: the file is cut off")
        words.append(bytes(word).lstrip(b"\n").decode("utf-8", "replace"))
        vectors[row] = np.frombuffer(numbers, "<f4")
    return ReadVectors(words, vectors, "word2vec binary")


def read_numpy(folder: Path) -> ReadVectors:
    """Reads vectors.npy and vocabulary.json.

    Raises:
        UserError: a file is missing, is a pickle or does not fit the other.
    """
    for name in ("vectors.npy", "vocabulary.json"):
        if not (folder / name).is_file():
            raise UserError(f"{folder}: {name} is missing")
    try:
        vectors = np.load(folder / "vectors.npy", allow_pickle=False)
        content = json.loads((folder / "vocabulary.json").read_bytes())
        words = [str(word) for word in content["words"]]
        counts = np.asarray(content["counts"], np.int64) if "counts" in content else None
    except (ValueError, KeyError, TypeError) as problem:
        raise UserError(f"{folder}: not vectors.npy with its vocabulary.json ({problem})") from None
    if vectors.ndim != 2 or len(vectors) != len(words) or (counts is not None and len(counts) != len(words)):
        raise UserError(f"{folder}: {len(words):,} words and vectors of the shape {vectors.shape}")
    return ReadVectors(words, vectors.astype(np.float32), "numpy", counts)


def distinct(found: ReadVectors) -> ReadVectors:
    """Returns the vectors without repeated words and special pieces; the first of two equal words stays."""
    rows: dict[str, int] = {}
    for row, word in enumerate(found.words):
        if word and word not in SPECIAL_PIECES:
            rows.setdefault(word, row)
    kept = np.fromiter(rows.values(), np.int64, len(rows))
    counts = None if found.counts is None else found.counts[kept]
    return ReadVectors(list(rows), found.vectors[kept], found.format, counts, len(found.words) - len(kept))
