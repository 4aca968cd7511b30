"""The section `embeddings`: word vectors as initial values of a network's embedding tables.

A row whose piece is a word of the vectors starts as that word's vector, scaled to the spread of the table's own initial
values; every other row keeps its own.

Frozen tables are not trained, including their rows without a vector. A table that source, target and output layer share
(model.tie) is one table: freezing it for one freezes it for all.
"""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dragoman.model.errors import UserError
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.runs.paths import EMBEDDINGS
from dragoman.model.settings import Side
from dragoman.model.shards.manifest import manifest_hash
from dragoman.model.text.tokenizer import SPECIAL, SUBWORDS, UNK, Tokenizer, TokenizerPair
from dragoman.model.text.word_table import SPACE
from dragoman.pipelines.config import Config
from dragoman.pipelines.tasks.kept import Kept, Note

if TYPE_CHECKING:
    from dragoman.model.bundles.vectors import VectorsBundle

logger = logging.getLogger(__name__)


def initialise(config: Config, network: TranslationNetwork, tokenizers: TokenizerPair) -> None:
    """Sets the tables of `network` to the vectors that the section names, and freezes them if requested."""
    settings = config.embeddings
    if settings.freeze and not settings.references:
        raise UserError("embeddings.freeze=true: needs embeddings.source or embeddings.target")
    if not settings.references:
        return
    rows = ROWS.tensors(config, tokenizers)
    tables = network.embedding_tables()
    spread = {id(table): initial_spread(table) for table in tables.values()}
    for side, reference in settings.references.items():
        table = tables[side]
        own = rows[f"{side}.ids"], rows[f"{side}.vectors"].numpy()
        fill_rows(table, *own, spread[id(table)], f"embeddings.{side}={reference!r}")
        if settings.freeze:
            table.weight.requires_grad_(False)


def initial_spread(table: nn.Embedding) -> float:
    """Returns the standard deviation of a table's initial values, without the padding row, which is zero."""
    with torch.no_grad():
        return float(table.weight[len(SPECIAL) :].std())


def fill_rows(table: nn.Embedding, ids: Tensor, vectors: NDArray[np.float32], spread: float, key: str) -> None:
    """Copies `vectors` (n, D) into the rows `ids` (n,) of `table` (V, D), with the standard deviation `spread`."""
    width = vectors.shape[1]
    if width != table.embedding_dim:
        raise UserError(
            f"{key}: its vectors have {width} numbers, the rows of the network's table {table.embedding_dim}. Choices: "
            f"{width} for the network (model.width, of recurrent ones model.embedding), or vectors trained with "
            f"model.width={table.embedding_dim}"
        )
    own = float(vectors.std(dtype=np.float64))
    if own == 0.0:
        raise UserError(f"{key}: all numbers of its vectors are the same; they hold nothing to start from")
    with torch.no_grad():
        table.weight[ids] = torch.from_numpy(vectors * np.float32(spread / own))


def find_rows(config: Config, side: Side, tokenizers: TokenizerPair) -> tuple[dict[str, Tensor], Note]:
    """Returns the rows of one side with their token ids, as trained, and their origin."""
    from dragoman.model.bundles.vectors import load_vectors

    reference = config.embeddings.references[side]
    key = f"embeddings.{side}"
    directory = config.bundle_dir(reference, key)
    try:
        bundle = load_vectors(directory)
        vectors = bundle.embeddings.vectors
    except UserError as problem:
        raise UserError(f"{key}={reference!r}: {problem}") from None
    if not isinstance(vectors, np.ndarray):
        raise UserError(f"{key}={reference!r}: {bundle.config.name} has a number a word, not dense vectors")
    tokenizer = tokenizers.source if side == "source" else tokenizers.target
    ids, rows = matches(tokenizer, bundle)
    if not len(ids):
        pieces = ", ".join(tokenizer.pieces(range(len(SPECIAL), min(len(SPECIAL) + 3, tokenizer.vocabulary))))
        raise UserError(
            f"{key}={reference!r}: none of its {len(bundle.words):,} words ({', '.join(bundle.words[:3])} ...) is a "
            f"piece of the {side} vocabulary ({pieces} ...)"
        )
    record = {
        "reference": reference,
        "digest": bundle.digest,
        "run": bundle.facts.get("run"),
        "rows": len(ids),
        "vocabulary": tokenizer.vocabulary - len(SPECIAL),
    }
    found = torch.from_numpy(np.ascontiguousarray(vectors[rows], np.float32))
    return {f"{side}.ids": torch.from_numpy(ids), f"{side}.vectors": found}, record


def matches(tokenizer: Tokenizer, bundle: "VectorsBundle") -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns (token ids, rows of the bundle) of the pieces that are words of the bundle, without special ids.

    Between tokenizers of one kind a piece is itself. Otherwise it is the word that it spells, as the bundle's tokenizer
    reads it (letter case, rules): a whole word, or a SentencePiece piece that begins one. The inside of a word is no
    word, and neither is a character.
    """
    theirs = bundle.tokenizer.source
    rows_of = {word: row for row, word in enumerate(bundle.words)}
    ids = list(range(len(SPECIAL), tokenizer.vocabulary))
    pieces = tokenizer.pieces(ids)
    same = tokenizer.type == theirs.type or (tokenizer.type in SUBWORDS and theirs.type in SUBWORDS)
    rows = [rows_of.get(piece, -1) if same else -1 for piece in pieces]
    spelled = [spelling(piece, tokenizer.type) for piece in pieces]
    missing = [index for index, row in enumerate(rows) if row < 0 and spelled[index]]
    for index, read in zip(missing, theirs.encode([spelled[index] for index in missing]), strict=True):
        if len(read) == 1 and read[0] != UNK:
            rows[index] = rows_of.get(theirs.pieces(read)[0], -1)
    row_numbers = np.asarray(rows, np.int64)
    return np.asarray(ids, np.int64)[row_numbers >= 0], row_numbers[row_numbers >= 0]


def spelling(piece: str, kind: str) -> str:
    """Returns the word that a piece is by itself, or ""."""
    if kind == "words":
        return piece
    return piece[1:] if kind in SUBWORDS and piece.startswith(SPACE) else ""


def make(config: Config, tokenizers: TokenizerPair) -> tuple[dict[str, Tensor], Note]:
    """Returns the rows of both sides."""
    sides = {side: find_rows(config, side, tokenizers) for side in config.embeddings.references}
    tensors = {name: tensor for rows, _ in sides.values() for name, tensor in rows.items()}
    return tensors, {"made_for": settings(config), "sides": {side: record for side, (_, record) in sides.items()}}


def describe(config: Config, note: Note) -> Iterator[str]:
    """Yields the number of rows of each side; warns of those that a frozen table leaves as they were drawn."""
    frozen = config.embeddings.freeze
    for side, record in note["sides"].items():
        yield (
            f"embeddings.{side}: {record['rows']:,} of {record['vocabulary']:,} rows start from {record['reference']} "
            f"({record['digest'][:12]}){', frozen' if frozen else ''}"
        )
        if frozen and record["rows"] < record["vocabulary"]:
            logger.warning(
                f"embeddings.freeze=true: {record['vocabulary'] - record['rows']:,} rows of the {side} table have no "
                f"vector; they stay as they were drawn"
            )


def settings(config: Config) -> dict[str, Any]:
    """Returns everything that the rows depend on; empty if the section is not used."""
    sides = dict(config.embeddings.references)
    return {"sides": sides, "shards": manifest_hash(config.shard_dir)} if sides else {}


ROWS = Kept(EMBEDDINGS, settings, lambda note: dict(note["made_for"]), make, describe)
