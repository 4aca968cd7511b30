"""Word vectors that other programs have written: the formats of `read_rows`, `read_folders` and `fasttext`.

A file may be compressed (gzip, xz, bzip2, zstd) or the one member of a zip. V words, d width.
"""

import zipfile
from pathlib import Path
from typing import BinaryIO

import numpy as np

from dragoman.model.errors import UserError
from dragoman.model.inputs.archive import unpacked
from dragoman.model.inputs.compression import check_expansion
from dragoman.model.inputs.streams import Blocks
from dragoman.model.text.tokenizer import SPECIAL_PIECES
from dragoman.model.word_vectors.fasttext import MAGIC, read_fasttext
from dragoman.model.word_vectors.read_folders import read_folder, read_npz
from dragoman.model.word_vectors.read_rows import (
    LONGEST,
    MOST_NUMBERS,
    ReadVectors,
    is_text_row,
    read_binary,
    read_text,
)


def read_vectors(path: Path) -> ReadVectors:
    """Returns the word vectors in a file or folder, whatever its format.

    Raises:
        UserError: no such format, a damaged file, a row that does not fit (names the line), or no words.
    """
    if path.is_dir():
        return distinct(read_folder(path))
    if path.suffix == ".npz":
        return distinct(read_npz(path))
    with opened(path) as file:
        start = file.peek(LONGEST)  # type: ignore[attr-defined]  # of a BufferedReader
        if start[:4] == MAGIC:
            return distinct(read_fasttext(path, file))
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
            if is_printable(start.split(b"\n", 2)[1]):
                raise UserError(
                    f"{path}: line 2: not a word and {width} numbers between blanks or tabs, with decimal points (0.12)"
                )
            return distinct(read_binary(path, file, count, width))
        if not is_text_row(start.partition(b"\n")[0], len(first) - 1):
            raise UserError(
                f"{path}: no word vectors; formats: word2vec text or binary, fastText .vec or .bin, GloVe, npz"
            )
        return distinct(read_text(path, file, len(first) - 1, "GloVe", 1, None))


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
    names = [one for one in archive.infolist() if not one.is_dir()]
    if len(names) != 1:
        listed = ", ".join(one.filename for one in names[:8]) or "none"
        raise UserError(f"{path}: one member is needed, {len(names)} found ({listed}); unpack one and name it")
    check_expansion(path, names[0].file_size)
    return Blocks.from_blocks(unpacked(archive.open(names[0]), names[0]))


def distinct(found: ReadVectors) -> ReadVectors:
    """Returns the vectors without repeated words and special pieces; the first of two equal words stays."""
    rows: dict[str, int] = {}
    for row, word in enumerate(found.words):
        if word and word not in SPECIAL_PIECES:
            rows.setdefault(word, row)
    kept = np.fromiter(rows.values(), np.int64, len(rows))
    counts = None if found.counts is None else found.counts[kept]
    return ReadVectors(
        list(rows), found.vectors[kept], found.format, counts, found.subwords, len(found.words) - len(kept)
    )
