"""Word vectors in the word2vec tool's formats, which hold them to the bit.

    text       a line `V d`, then one line per word (fastText's .vec too; GloVe: no first line)
    binary     the same line, then each word, a space and d little-endian float32

V words, d width.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from dragoman.model.errors import UserError, unknown
from dragoman.model.word_vectors.embeddings import Embeddings

Format = Literal["text", "binary"]


def write_text(path: Path, embeddings: Embeddings) -> None:
    """Writes the word2vec tool's text format with nine digits, which restore every float32."""
    row_format = " %.9g" * embeddings.width + "\n"
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{len(embeddings)} {embeddings.width}\n")
        for word, row in zip(embeddings.words, embeddings.vectors, strict=True):
            file.write(word + row_format % tuple(row.tolist()))


def write_binary(path: Path, embeddings: Embeddings) -> None:
    """Writes the word2vec tool's binary format, with its line break after each vector."""
    with path.open("wb") as file:
        file.write(f"{len(embeddings)} {embeddings.width}\n".encode())
        for word, row in zip(embeddings.words, embeddings.vectors.astype("<f4", copy=False), strict=True):
            file.write(word.encode() + b" " + row.tobytes() + b"\n")


def check_dense(embeddings: Embeddings, path: Path) -> None:
    """Raises UserError for sparse vectors: as wide as the vocabulary, they would fill the disk with zeros."""
    if embeddings.sparse:
        raise UserError(
            f"{path.name}: counted vectors ({len(embeddings):,} words of {embeddings.width:,} numbers, nearly all 0) "
            "are kept in the bundle only; these formats are for dense vectors"
        )


def check_words(embeddings: Embeddings, path: Path) -> None:
    """Raises UserError for an empty word, or one that a space or line break would split."""
    for word in embeddings.words:
        if word.split() != [word]:
            raise UserError(f"{path.name}: the word {word!r} has white space in it, which ends a word in this format")


class Row(NamedTuple):
    """A format: its file and what writes it."""

    file: str
    write: Callable[[Path, Embeddings], None]


FORMATS: dict[Format, Row] = {"text": Row("vectors.txt", write_text), "binary": Row("vectors.bin", write_binary)}


def write_format(folder: Path, name: Format, embeddings: Embeddings) -> Path:
    """Writes the vectors into `folder` in one of the formats; returns the new file."""
    if name not in FORMATS:
        raise unknown("export format", name, FORMATS)
    row = FORMATS[name]
    path = folder / row.file
    check_dense(embeddings, path)
    check_words(embeddings, path)
    folder.mkdir(parents=True, exist_ok=True)
    row.write(path, embeddings)
    return path
