"""The section `embeddings`: word vectors as initial values of a network's embedding tables.

A row whose piece is a word of the vectors starts as that word's vector, scaled to the spread of the table's own initial
values; every other row keeps its own. The rows are stored in the run's directory (embeddings.safetensors) at its first
start. So workers need no registry, and a resumed run has its initial values even if an alias has moved.

Frozen tables are not trained, including their rows without a vector. A table that source, target and output layer share
(model.tie) is one table: freezing it for one freezes it for all.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from torch import Tensor, nn

from dragoman.model.bundles.vectors import VectorsBundle, load_vectors
from dragoman.model.errors import UserError
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.runs.paths import EMBEDDINGS
from dragoman.model.settings import Side
from dragoman.model.shards.manifest import manifest_hash, read_manifest
from dragoman.model.text.tokenizer import SPECIAL, SUBWORDS, UNK, Tokenizer, TokenizerPair
from dragoman.model.text.tokenizers import load_pair
from dragoman.pipelines.config import Config
from dragoman.pipelines.tasks import kept

logger = logging.getLogger(__name__)

FILE = EMBEDDINGS
WORD_START = "▁"  # U+2581: SentencePiece's pieces at the start of a word begin with it


@dataclass(frozen=True)
class FoundRows:
    """The vectors of one side's pieces."""

    ids: NDArray[np.int64]  # (n,) token ids
    vectors: NDArray[np.float32]  # (n, d), as trained
    record: dict[str, Any]  # their origin: reference, bundle's digest and run, rows, vocabulary


def initialise(config: Config, network: TranslationNetwork, tokenizers: TokenizerPair) -> None:
    """Sets the tables of `network` to the vectors that the section names, and freezes them if requested."""
    settings = config.embeddings
    if settings.freeze and not settings.references:
        raise UserError("embeddings.freeze=true: needs embeddings.source or embeddings.target")
    if not settings.references:
        return
    rows = kept_rows(config) or {side: find_rows(config, side, tokenizers) for side in settings.references}
    tables = network.embedding_tables()
    spread = {id(table): initial_spread(table) for table in tables.values()}
    for side, rows_of_side in rows.items():
        table = tables[side]
        fill_rows(table, rows_of_side, spread[id(table)], f"embeddings.{side}={settings.references[side]!r}")
        if settings.freeze:
            table.weight.requires_grad_(False)


def initial_spread(table: nn.Embedding) -> float:
    """Returns the standard deviation of a table's initial values, without the padding row, which is zero."""
    with torch.no_grad():
        return float(table.weight[len(SPECIAL) :].std())


def fill_rows(table: nn.Embedding, rows: FoundRows, spread: float, key: str) -> None:
    """Copies the vectors into their rows of `table` (V, D), with the standard deviation `spread`."""
    width = rows.vectors.shape[1]
    if width != table.embedding_dim:
        raise UserError(
            f"{key}: its vectors have {width} numbers, the rows of the network's table {table.embedding_dim}. Choices: "
            f"{width} for the network (model.width, of recurrent ones model.embedding), or vectors trained with "
            f"model.width={table.embedding_dim}"
        )
    own = float(rows.vectors.std(dtype=np.float64))
    if own == 0.0:
        raise UserError(f"{key}: all numbers of its vectors are the same; they hold nothing to start from")
    with torch.no_grad():
        table.weight[torch.from_numpy(rows.ids)] = torch.from_numpy(rows.vectors * np.float32(spread / own))


def find_rows(config: Config, side: Side, tokenizers: TokenizerPair) -> FoundRows:
    """Returns the rows of one side, from the bundle that the section names."""
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
    return FoundRows(ids, np.ascontiguousarray(vectors[rows], np.float32), record)


def matches(tokenizer: Tokenizer, bundle: VectorsBundle) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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
    missing = [place for place, row in enumerate(rows) if row < 0 and spelled[place]]
    for place, read in zip(missing, theirs.encode([spelled[place] for place in missing]), strict=True):
        if len(read) == 1 and read[0] != UNK:
            rows[place] = rows_of.get(theirs.pieces(read)[0], -1)
    row_numbers = np.asarray(rows, np.int64)
    return np.asarray(ids, np.int64)[row_numbers >= 0], row_numbers[row_numbers >= 0]


def spelling(piece: str, kind: str) -> str:
    """Returns the word that a piece is by itself, or ""."""
    if kind == "words":
        return piece
    return piece[1:] if kind in SUBWORDS and piece.startswith(WORD_START) else ""


def keep(config: Config) -> None:
    """Finds the rows of a new run and stores them in its directory; logs their number."""
    settings = config.embeddings
    if not settings.references or kept_rows(config):
        return
    tokenizers = load_pair(config.shard_dir, read_manifest(config.shard_dir).tokenizer)
    rows = {side: find_rows(config, side, tokenizers) for side in settings.references}
    write_rows(config.run_dir / FILE, rows, made_for(config))
    for side, rows_of_side in rows.items():
        record = rows_of_side.record
        logger.info(
            f"embeddings.{side}: {record['rows']:,} of {record['vocabulary']:,} rows start from {record['reference']} "
            f"({record['digest'][:12]}){', frozen' if settings.freeze else ''}"
        )
        if settings.freeze and record["rows"] < record["vocabulary"]:
            logger.warning(
                f"embeddings.freeze=true: {record['vocabulary'] - record['rows']:,} rows of the {side} table have no "
                f"vector; they stay as they were drawn"
            )


def kept_rows(config: Config) -> dict[Side, FoundRows] | None:
    """Returns the run's stored rows; None if it has none for these settings and shards."""
    path = config.run_dir / FILE
    notes = kept.note(path)
    if notes is None or notes["made_for"] != made_for(config):
        return None
    with safe_open(path, framework="numpy") as file:
        records: Mapping[Side, dict[str, Any]] = notes["sides"]
        return {
            side: FoundRows(file.get_tensor(f"{side}.ids"), file.get_tensor(f"{side}.vectors"), record)
            for side, record in records.items()
        }


def write_rows(path: Path, rows: Mapping[Side, FoundRows], made_for: Mapping[str, Any]) -> None:
    """Writes the file atomically."""
    tensors: dict[str, Tensor] = {}
    for side, rows_of_side in rows.items():
        tensors |= {
            f"{side}.ids": torch.from_numpy(rows_of_side.ids),
            f"{side}.vectors": torch.from_numpy(rows_of_side.vectors),
        }
    notes = {"made_for": made_for, "sides": {side: rows_of_side.record for side, rows_of_side in rows.items()}}
    kept.write(path, tensors, notes)


def made_for(config: Config) -> dict[str, Any]:
    """Returns everything that stored rows depend on."""
    return {"sides": dict(config.embeddings.references), "shards": manifest_hash(config.shard_dir)}


def identity(config: Config) -> dict[str, Any]:
    """Returns the section for a run's identity; empty if it is not used."""
    return {"embeddings": asdict(config.embeddings)} if config.embeddings.references else {}


def facts(config: Config) -> dict[str, Any]:
    """Returns a bundle's facts about its network's initial vectors; empty if there were none."""
    rows = kept_rows(config) if config.embeddings.references else None
    if rows is None:
        return {}
    sides = {side: rows_of_side.record for side, rows_of_side in rows.items()}
    return {"embeddings": {**sides, "freeze": config.embeddings.freeze}}
