"""Word vectors in the formats of other programs.

    text       the word2vec tool's: a line `V d`, then one line per word (fastText's .vec too; GloVe: no first line)
    binary     the word2vec tool's: the same line, then each word, a space and d little-endian float32
    numpy      vectors.npy and vocabulary.json {"words", "counts"}: a folder
    projector  tensors.tsv, metadata.tsv and the configurations of TensorBoard's projector: a folder

The first three hold the vectors to the bit. V words, d width.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from dragoman.model.errors import UserError, unknown
from dragoman.model.text.excerpt import excerpt
from dragoman.model.text.tokenizer import canonical_json
from dragoman.model.word_vectors.embeddings import Embeddings

Format = Literal["text", "binary", "numpy", "projector"]
PROJECTED = 10_000  # the most frequent words; the projector's page takes few more


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


def write_numpy(folder: Path, embeddings: Embeddings) -> None:
    """Writes vectors.npy (V, d) float32 and vocabulary.json; accepts any word."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "vectors.npy", embeddings.vectors, allow_pickle=False)
    content = canonical_json({"words": embeddings.words, "counts": embeddings.counts.tolist()})
    (folder / "vocabulary.json").write_bytes(content + b"\n")


def write_projector(folder: Path, embeddings: Embeddings) -> None:
    """Writes the files of TensorBoard's projector, with the PROJECTED most frequent words.

    `tensorboard --logdir FOLDER` finds them by projector_config.pbtxt; on projector.tensorflow.org, load the two .tsv.
    A tab, line break or control character inside a word becomes a space, since words are only shown there.
    """
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


class Row(NamedTuple):
    """A format: its file or folder, what writes it, and whether white space ends a word in it."""

    place: str
    write: Callable[[Path, Embeddings], None]
    ends_words: bool = False


FORMATS: dict[Format, Row] = {
    "text": Row("vectors.txt", write_text, ends_words=True),
    "binary": Row("vectors.bin", write_binary, ends_words=True),
    "numpy": Row("numpy", write_numpy),
    "projector": Row("projector", write_projector),
}


def write_format(folder: Path, name: Format, embeddings: Embeddings) -> Path:
    """Writes the vectors into `folder` in one of the formats; returns the new file or folder.

    Raises UserError: an unknown format, or vectors that the format cannot hold.
    """
    if name not in FORMATS:
        raise unknown("export format", name, FORMATS)
    row = FORMATS[name]
    place = folder / row.place
    check_dense(embeddings, place)
    if row.ends_words:
        check_words(embeddings, place)
    folder.mkdir(parents=True, exist_ok=True)
    row.write(place, embeddings)
    return place
