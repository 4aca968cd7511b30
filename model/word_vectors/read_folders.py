"""Word vectors as arrays beside a list of words, and the static tables of model2vec.

numpy        a folder with vectors.npy (V, d) and vocabulary.json {"words", "counts"?}, as our export writes it
safetensors  the same with one .safetensors that holds one matrix (V, d)
npz          a file with one matrix (V, d) and one array of words (V,)
model2vec    a folder with model.safetensors and tokenizer.json: pieces that begin a word
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.word_vectors.read_rows import ReadVectors

VECTORS, VOCABULARY = "vectors.npy", "vocabulary.json"
TENSORS = "*.safetensors"
MODEL2VEC = "model.safetensors", "tokenizer.json"
BEGINS, CONTINUES = ("\u2581", "\u0120"), "##"  # how pieces mark that they begin a word, or that they do not


def is_vectors_folder(folder: Path) -> bool:
    """Returns True for a folder of word vectors; another one may be a model of transformers."""
    if (folder / VOCABULARY).is_file() and ((folder / VECTORS).is_file() or len(list(folder.glob(TENSORS))) == 1):
        return True
    return (folder / VECTORS).is_file() or is_model2vec(folder)


def table_of(folder: Path) -> Path:
    """Returns the file with the vectors of such a folder."""
    return folder / VECTORS if (folder / VECTORS).is_file() else next(iter(sorted(folder.glob(TENSORS))))


def is_model2vec(folder: Path) -> bool:
    """Returns True for a folder that model2vec has written."""
    from safetensors import SafetensorError, safe_open

    if not all((folder / name).is_file() for name in MODEL2VEC):
        return False
    try:
        with safe_open(folder / MODEL2VEC[0], framework="numpy") as file:
            return "embeddings" in file.keys()  # noqa: SIM118  # it has no `in`
    except SafetensorError:
        return False


def read_folder(folder: Path) -> ReadVectors:
    if is_model2vec(folder):
        return read_model2vec(folder)
    tensors = sorted(folder.glob(TENSORS))
    if not (folder / VECTORS).is_file() and len(tensors) == 1:
        return read_listed(folder, single(tensors[0], read_tensors(tensors[0])), "safetensors")
    for name in (VECTORS, VOCABULARY):
        if not (folder / name).is_file():
            raise UserError(f"{folder}: {name} is missing")
    try:
        vectors = np.load(folder / VECTORS, allow_pickle=False)
    except ValueError as problem:
        raise UserError(f"{folder}: not vectors.npy with its vocabulary.json ({problem})") from None
    return read_listed(folder, vectors, "numpy")


def read_listed(folder: Path, vectors: NDArray[Any], form: str) -> ReadVectors:
    """Returns the vectors with the words of vocabulary.json."""
    try:
        content = json.loads((folder / VOCABULARY).read_bytes())
        words = [str(word) for word in content["words"]]
        counts = np.asarray(content["counts"], np.int64) if "counts" in content else None
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise UserError(f"{folder}: vocabulary.json is no list of words and counts ({problem})") from None
    return fitting(folder, words, vectors, form, counts)


def read_npz(path: Path) -> ReadVectors:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except ValueError as problem:
        raise UserError(f"{path}: {problem}; save the words as an array of texts, not of objects") from None
    words = [array for array in arrays.values() if array.ndim == 1 and array.dtype.kind == "U"]
    if len(words) != 1:
        raise UserError(f"{path}: one array of words is needed, {len(words)} found among {', '.join(arrays)}")
    return fitting(path, words[0].tolist(), single(path, arrays), "npz")


def read_model2vec(folder: Path) -> ReadVectors:
    """Returns the pieces of a static table that begin a word; those within words have no meaning by themselves."""
    tensors = read_tensors(folder / MODEL2VEC[0])
    try:
        table = np.asarray(tensors["embeddings"], np.float32)
        rows = tensors.get("mapping", np.arange(len(table))).astype(np.int64)
        vectors = table[rows] * np.asarray(tensors.get("weights", np.ones(len(rows))), np.float32)[:, None]
        model = json.loads((folder / MODEL2VEC[1]).read_bytes())["model"]
        listed = model["vocab"]
        pieces = sorted(listed, key=listed.__getitem__) if isinstance(listed, dict) else [entry[0] for entry in listed]
    except (KeyError, ValueError, TypeError, IndexError) as problem:
        raise UserError(f"{folder}: no static table with its tokenizer ({problem!r})") from None
    marked = any(piece.startswith(BEGINS) for piece in pieces)
    kept = [
        row
        for row, piece in enumerate(pieces)
        if (piece.startswith(BEGINS) and len(piece) > 1 if marked else not piece.startswith(CONTINUES))
    ]
    fitting_vectors = fitting(folder, pieces, vectors, "model2vec")
    return ReadVectors(
        [pieces[row].lstrip("".join(BEGINS)) for row in kept], fitting_vectors.vectors[kept], fitting_vectors.format
    )


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return dict(load_file(path))
    except SafetensorError as problem:
        raise UserError(f"{path}: no safetensors ({problem})") from None


def single(path: Path, arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Returns the one matrix among arrays."""
    tables = [array for array in arrays.values() if array.ndim == 2]
    if len(tables) != 1:
        raise UserError(f"{path}: one matrix of vectors is needed, {len(tables)} found among {', '.join(arrays)}")
    return tables[0]


def fitting(
    path: Path, words: list[str], vectors: NDArray[Any], form: str, counts: NDArray[np.int64] | None = None
) -> ReadVectors:
    if vectors.ndim != 2 or len(vectors) != len(words) or (counts is not None and len(counts) != len(words)):
        raise UserError(f"{path}: {len(words):,} words and vectors of the shape {vectors.shape}")
    return ReadVectors(words, vectors.astype(np.float32), form, counts)
