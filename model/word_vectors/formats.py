"""Word vectors in the formats of other programs.

    text       the word2vec tool's: a line `V d`, then one line per word (fastText's .vec too; GloVe: no first line)
    binary     the word2vec tool's: the same line, then each word, a space and d little-endian float32
    numpy      vectors.npy and vocabulary.json {"words", "counts"}: a folder
    projector  tensors.tsv, metadata.tsv and the configurations of TensorBoard's projector: a folder

The first three are read back exactly, to the bit. V words, d width.
"""

import json
import mmap
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from model.errors import UserError, unknown
from model.text.excerpt import excerpt
from model.text.tokenizer import canonical_json
from model.word_vectors.embeddings import Embeddings

Format = Literal["text", "binary", "numpy", "projector"]
PLACES: dict[Format, str] = {"text": "vectors.txt", "binary": "vectors.bin", "numpy": "numpy", "projector": "projector"}
HEADER = re.compile(rb"\s*(\d+)[ \t]+(\d+)\s*\n")
LONGEST_WORD = 1 << 16  # bytes; a file with a longer run without a space is no word list
PROJECTED = 10_000  # the most frequent words; the projector's page takes few more
BYTES_A_NUMBER = {"text": 2, "binary": 4}  # the minimum


def write_format(folder: Path, name: Format, embeddings: Embeddings) -> Path:
    """Writes the vectors into `folder` in one of the formats; returns the new file or folder.

    Raises:
        UserError: an unknown format, or vectors that the format cannot hold.
    """
    writers: dict[Format, Callable[[Path, Embeddings], None]] = {
        "text": write_text,
        "binary": write_binary,
        "numpy": write_numpy,
        "projector": write_projector,
    }
    if name not in writers:
        raise unknown("export format", name, writers)
    folder.mkdir(parents=True, exist_ok=True)
    writers[name](folder / PLACES[name], embeddings)
    return folder / PLACES[name]


def write_text(path: Path, embeddings: Embeddings) -> None:
    """Writes the word2vec tool's text format with nine digits, which restore every float32.

    Raises:
        UserError: a word with white space in it (named), or sparse vectors.
    """
    check_dense(embeddings, path)
    check_words(embeddings, path)
    row_format = " %.9g" * embeddings.width + "\n"
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{len(embeddings)} {embeddings.width}\n")
        for word, row in zip(embeddings.words, embeddings.vectors, strict=True):
            file.write(word + row_format % tuple(row.tolist()))


def read_text(path: Path) -> Embeddings:
    """Reads vectors in the word2vec tool's text format, with its first line or without it (GloVe).

    Raises:
        UserError: not such a file; names the line.
    """
    with path.open("rb") as file:
        first = file.readline()
        header = sizes(first, path, "text")
        width = header[1] if header else len(first.split(b" ")) - 1
        if not header:
            file.seek(0)
        words: list[str] = []
        rows: list[NDArray[np.float32]] = []
        for number, line in enumerate(file, start=2 if header else 1):
            parts = line.rstrip().rsplit(b" ", width) if width else []  # words may contain spaces: count from the end
            try:
                if len(parts) != width + 1:
                    raise ValueError(f"{len(parts) - 1} numbers, not {width}")
                rows.append(np.array([float(part) for part in parts[1:]], np.float32))
                words.append(parts[0].decode())
            except ValueError as problem:
                raise UserError(f"{path}: line {number} is no word and its {width} numbers ({problem})") from None
    if header and len(words) != header[0]:
        raise UserError(f"{path}: {len(words):,} words, but its first line says {header[0]:,}; the file was cut off?")
    return make_embeddings(path, words, np.stack(rows) if rows else np.empty((0, width), np.float32))


def write_binary(path: Path, embeddings: Embeddings) -> None:
    """Writes the word2vec tool's binary format, with its line break after each vector.

    Raises:
        UserError: a word with white space in it (named), or sparse vectors.
    """
    check_dense(embeddings, path)
    check_words(embeddings, path)
    with path.open("wb") as file:
        file.write(f"{len(embeddings)} {embeddings.width}\n".encode())
        for word, row in zip(embeddings.words, embeddings.vectors.astype("<f4", copy=False), strict=True):
            file.write(word.encode() + b" " + row.tobytes() + b"\n")


def read_binary(path: Path) -> Embeddings:
    """Reads vectors in the word2vec tool's binary format, with or without line breaks after them.

    Raises:
        UserError: not such a file, or a truncated one.
    """
    with path.open("rb") as file:
        header = sizes(file.readline(), path, "binary")
        if header is None:
            raise UserError(f"{path}: no binary word vectors; the first line must give the words and the width")
        count, width = header
        begin = file.tell()
        if not path.stat().st_size > begin:
            raise UserError(f"{path}: its first line says {count:,} words, but it holds none")
        words: list[str] = []
        vectors = np.empty((count, width), np.float32)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            place = begin
            for row in range(count):
                space = content.find(b" ", place, place + LONGEST_WORD)
                end = space + 1 + 4 * width
                if space < 0 or end > len(content):
                    raise UserError(f"{path}: ends within word {row + 1:,} of {count:,}; the file was cut off?")
                try:
                    words.append(content[place:space].lstrip(b"\n").decode())
                except UnicodeDecodeError as problem:
                    raise UserError(f"{path}: word {row + 1:,} is not UTF-8 ({problem})") from None
                vectors[row] = np.frombuffer(content[space + 1 : end], "<f4")
                place = end
    return make_embeddings(path, words, vectors)


def write_numpy(folder: Path, embeddings: Embeddings) -> None:
    """Writes vectors.npy (V, d) float32 and vocabulary.json; accepts any word.

    Raises:
        UserError: sparse vectors.
    """
    check_dense(embeddings, folder)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "vectors.npy", embeddings.vectors, allow_pickle=False)
    content = canonical_json({"words": embeddings.words, "counts": embeddings.counts.tolist()})
    (folder / "vocabulary.json").write_bytes(content + b"\n")


def read_numpy(folder: Path) -> Embeddings:
    """Reads the files of `write_numpy`.

    Raises:
        UserError: a file is missing, damaged or holds something else.
    """
    try:
        vectors = np.load(folder / "vectors.npy", allow_pickle=False)
        vocabulary = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
        return Embeddings(vocabulary["words"], np.asarray(vocabulary["counts"], np.int64), vectors)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise UserError(f"{folder}: no vectors.npy with its vocabulary.json ({problem})") from None


def write_projector(folder: Path, embeddings: Embeddings) -> None:
    """Writes the files of TensorBoard's projector, with the PROJECTED most frequent words.

    `tensorboard --logdir FOLDER` finds them by projector_config.pbtxt; on projector.tensorflow.org, load the two .tsv.
    A tab, line break or control character inside a word becomes a space, since words are only shown there.

    Raises:
        UserError: sparse vectors.
    """
    check_dense(embeddings, folder)
    folder.mkdir(parents=True, exist_ok=True)
    count = min(PROJECTED, len(embeddings))
    row_format = "\t".join(["%.6g"] * embeddings.width) + "\n"
    with (folder / "tensors.tsv").open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(row_format % tuple(row.tolist()) for row in embeddings.vectors[:count])
    with (folder / "metadata.tsv").open("w", encoding="utf-8", newline="\n") as file:
        file.write("word\tcount\n")
        for word, number in zip(embeddings.words[:count], embeddings.counts[:count].tolist(), strict=True):
            file.write(f"{' '.join(excerpt(word).split()) or '(space)'}\t{number}\n")
    (folder / "projector_config.pbtxt").write_text(
        'embeddings {\n  tensor_name: "words"\n  tensor_path: "tensors.tsv"\n  metadata_path: "metadata.tsv"\n}\n',
        encoding="utf-8",
    )
    entry = {
        "tensorName": "words",
        "tensorShape": [count, embeddings.width],
        "tensorPath": "tensors.tsv",
        "metadataPath": "metadata.tsv",
    }
    (folder / "projector_config.json").write_bytes(canonical_json({"embeddings": [entry]}) + b"\n")


def sizes(line: bytes, path: Path, kind: str) -> tuple[int, int] | None:
    """Returns words and width from a file's first line; None if it gives neither.

    Raises:
        UserError: more than the file can hold.
    """
    found = HEADER.fullmatch(line)
    if not found:
        return None
    count, width = int(found[1]), int(found[2])
    if count * (width * BYTES_A_NUMBER[kind] + 1) > path.stat().st_size:
        raise UserError(
            f"{path}: its first line says {count:,} words of {width:,} numbers, the file is too small for that; "
            "it was cut off?"
        )
    return count, width


def make_embeddings(path: Path, words: list[str], vectors: NDArray[np.float32]) -> Embeddings:
    """Returns the embeddings of a file; errors name the file."""
    try:
        return Embeddings(words, None, vectors)
    except UserError as problem:
        raise UserError(f"{path}: {problem}") from None


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
            raise UserError(
                f"{path.name}: the word {word!r} has white space in it, which ends a word in this format; "
                "export to numpy, which takes any word"
            )
