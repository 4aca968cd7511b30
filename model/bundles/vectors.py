"""The bundle of word vectors: a directory that holds the words, their vectors, and their origin.

    config.json         format version, kind "vectors", the method and its configuration, the table's shape, tokenizer,
                        facts, and the sha256 of every other file
    model.safetensors   `vectors` (V, d), dense or as CSR; `contexts` if the method has them; `weights` (V,) if words
                        weigh differently in a text (idf)
    words.json          the words, most frequent first, and their counts
    tokenizer.*         turns text into these words

Nothing is pickled and nothing names code: the method is a row of a closed table.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.bundles.directory import CONFIG, WEIGHTS, Bundle, new_bundle, read_record
from dragoman.model.bundles.network import check_pair
from dragoman.model.errors import UserError
from dragoman.model.text.tokenizer import SPECIAL_PIECES, TokenizerPair, canonical_json
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.model.text.words import WordRules, WordTokenizer
from dragoman.model.word_vectors.embeddings import Embeddings, ReadVectors, TextBasis
from dragoman.model.word_vectors.glove import GloveConfig
from dragoman.model.word_vectors.methods import method_config, method_type
from dragoman.model.word_vectors.search import Table, is_sparse
from dragoman.model.word_vectors.word2vec import Word2VecConfig

WORDS = "words.json"
CSR_PARTS = ("data", "indices", "indptr")


@dataclass(kw_only=True)
class VectorsBundle(Bundle):
    """The bundle of word vectors; reads the tables on first use."""

    words: list[str]  # (V,) most frequent first
    counts: NDArray[np.int64]  # (V,)
    width: int  # d
    tokenizer: TokenizerPair

    @cached_property
    def config(self) -> Any:
        """Returns the method's config dataclass, without loading torch."""
        return method_config(self.model)

    @cached_property
    def embeddings(self) -> Embeddings:
        """Returns the words and vectors, ready for queries."""
        tables = self._tables("vectors", "weights")
        texts: TextBasis = getattr(self.config, "texts", "vectors")
        return Embeddings(self.words, self.counts, tables["vectors"], tables.get("weights"), texts, self.language)

    @property
    def language(self) -> str:
        """Returns the language whose lower case the words have; empty for imported words."""
        source = self.tokenizer.source
        if isinstance(source, WordTokenizer) and source.rules.lowercase:
            return source.rules.language
        return str(self.facts["pair"])

    @cached_property
    def contexts(self) -> NDArray[np.float32] | None:
        """Returns the context vectors of word2vec and GloVe: of context words, or of a Huffman tree's inner nodes."""
        return self._tables("contexts").get("contexts")

    def _tables(self, *names: str) -> dict[str, Any]:
        path = self.directory / WEIGHTS
        try:
            return read_tables(path, (len(self.words), self.width), names)
        except (KeyError, ValueError) as problem:
            raise UserError(f"{path}: not the tables that {CONFIG} describes ({problem})") from None


def save_vectors(
    directory: Path,
    *,
    words: Sequence[str],
    counts: NDArray[np.integer[Any]],
    tables: Mapping[str, Table],
    config: Any,
    tokenizer: TokenizerPair,
    facts: Mapping[str, Any],
) -> None:
    """Writes the bundle atomically: into a temporary directory, then renamed; replaces an older one.

    `tables`: `vectors` (V, d), an array or CSR, and optionally `contexts` (any rows, d) and `weights` (V,). `facts`
    must be JSON and hold at least `pair`.
    """
    check_pair(facts)
    embeddings = Embeddings(words, counts, tables["vectors"], tables.get("weights"))  # checks them
    record = {
        "kind": "vectors",
        "architecture": config.architecture,
        "model": dict(vars(config)),
        "table": {"words": len(embeddings), "width": embeddings.width, "sparse": embeddings.sparse},
        "tokenizer": tokenizer.describe(),
    }
    with new_bundle(directory, record, facts) as work:
        write_tables(work / WEIGHTS, {**tables, "vectors": embeddings.vectors})
        content = canonical_json({"words": embeddings.words, "counts": embeddings.counts.tolist()})
        (work / WORDS).write_bytes(content + b"\n")
        tokenizer.save(work)


def load_vectors(directory: Path) -> VectorsBundle:
    """Reads and checks a bundle."""
    record, common = read_record(directory, "vectors", ("table",))
    if WORDS not in record["files"]:
        raise UserError(f"{directory / CONFIG}: files: {WORDS} is missing")
    config = method_config(record["model"])
    if not isinstance(config, method_type(str(record["architecture"]))):
        raise UserError(f"{directory / CONFIG}: architecture {record['architecture']!r} does not fit its model section")
    stored = json.loads((directory / WORDS).read_text(encoding="utf-8"))
    words, counts = stored["words"], np.asarray(stored["counts"], np.int64)
    table = record["table"]
    if not isinstance(table, dict) or table.get("words") != len(words) or not isinstance(table.get("width"), int):
        raise UserError(f"{directory / CONFIG}: table must give width and the {len(words):,} words of {WORDS}")
    return VectorsBundle(
        **common, words=words, counts=counts, width=table["width"], tokenizer=load_pair(directory, record["tokenizer"])
    )


def write_tables(path: Path, tables: Mapping[str, Table]) -> None:
    """Writes tables as safetensors; a CSR as its three parts `NAME.data`, `NAME.indices`, `NAME.indptr`."""
    from safetensors.numpy import save_file

    tensors: dict[str, NDArray[Any]] = {}
    for name, table in tables.items():
        if is_sparse(table):
            rows = table.tocsr()
            tensors |= {f"{name}.{part}": np.ascontiguousarray(getattr(rows, part)) for part in CSR_PARTS}
            tensors[f"{name}.data"] = tensors[f"{name}.data"].astype(np.float32)
        else:
            tensors[name] = np.ascontiguousarray(table, np.float32)
    save_file(tensors, path)


def read_tables(path: Path, shape: tuple[int, int], table_names: Sequence[str]) -> dict[str, Table]:
    """Reads those of `table_names` that the file holds; `shape` (V, d) of the vectors."""
    from safetensors import SafetensorError, safe_open
    from scipy.sparse import csr_array

    tables: dict[str, Table] = {}
    try:
        with safe_open(path, framework="numpy") as file:
            names = set(file.keys())
            for name in table_names:
                if name in names:
                    tables[name] = file.get_tensor(name)
                elif f"{name}.data" in names:
                    parts = tuple(file.get_tensor(f"{name}.{part}") for part in CSR_PARTS)
                    tables[name] = csr_array(parts, shape=shape)
    except SafetensorError as problem:
        raise ValueError(str(problem)) from None
    if "vectors" in table_names and tables["vectors"].shape != shape:
        raise ValueError(f"vectors have the shape {tables['vectors'].shape}, not {shape}")
    return tables


def save_read(directory: Path, vectors: ReadVectors, language: str, origin: Mapping[str, Any]) -> None:
    """Writes the bundle; its fact `imported` holds `origin`.

    The files do not say how they were trained: `model` names the family of their format, and nothing is trained on.
    Words are looked up as they stand, in lower case if all of them are.
    """
    width = int(vectors.vectors.shape[1])
    config = (GloveConfig if vectors.format == "GloVe" else Word2VecConfig)(name="imported", width=width)
    lowercase = all(word == word.lower() for word in vectors.words)
    tokenizer = WordTokenizer([*SPECIAL_PIECES, *vectors.words], WordRules(lowercase=lowercase))
    facts: dict[str, Any] = {"pair": language, "normalisation": "NFC"}
    save_vectors(
        directory,
        words=vectors.words,
        counts=np.zeros(len(vectors.words), np.int64),
        tables={"vectors": vectors.vectors},
        config=config,
        tokenizer=TokenizerPair(tokenizer, tokenizer),
        facts=facts | {"imported": {**origin, "dropped_words": vectors.dropped}},
    )
