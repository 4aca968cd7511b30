"""From the plan to shards: the pairs (for text: records) of each shard, and the task that writes it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain, repeat
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.model.shards.manifest import ShardEntry, ShardsConfig, chunk_records
from dragoman.model.shards.writer import Record, finished_shard, write_shard
from dragoman.model.text.labels import LabelTokenizer, encode_tagged
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.pipelines.corpus.clean.block import SIDES, load_texts
from dragoman.pipelines.corpus.plan.plan import Plan, code, load_codes

SHARDS_OF_A_SMALL_CORPUS = 8  # so that several workers have something to do


@dataclass(frozen=True)
class Piece:
    """Some of the pairs of one block in a split."""

    block: int
    skip: int  # kept pairs of the block and split that are in an earlier shard
    take: int
    prefix: str = ""  # tags before each source sentence, as text


@dataclass(frozen=True)
class ShardTask:
    """The pairs of one shard, fixed before any worker starts."""

    directory: Path
    clean: Path  # the folder of clean blocks
    plan: Path  # the folder of codes
    split: str
    index: int
    first_id: int
    pieces: tuple[Piece, ...]
    chunk_records: int
    dtype: str
    tokenizer: str  # the result of `TokenizerPair.describe` as JSON
    key: str
    verify: bool
    part: str = ""  # the corpus of a mix


def shard_tasks(
    directory: Path,
    clean: Path,
    plan: Plan,
    split: str,
    tokenizer: dict[str, Any],
    config: ShardsConfig,
    config_hash: str,
) -> list[ShardTask]:
    """Returns the shards of a split: ranges of its kept pairs in the corpus' order, in whole chunks.

    A shard of a mix holds pairs of one part.
    """
    records = plan.records(split)
    if split == "train":
        chunk = chunk_records(records, config.chunk_records)
        share = -(-records // SHARDS_OF_A_SMALL_CORPUS)
    else:  # nothing is shuffled or dealt to lanes
        chunk, share = config.chunk_records, config.shard_lines
    size = max(chunk, -(-min(config.shard_lines, share) // chunk) * chunk)
    vocabulary = max(entry["vocabulary"] for entry in tokenizer["files"])
    key = "-".join([config_hash, *(entry["sha256"][:16] for entry in tokenizer["files"])])
    ends = list(accumulate(plan.kept[split], initial=0))  # kept pairs before each block
    ranges = [
        (span, first, min(first + size, ends[span.end]))
        for span in plan.spans()
        for first in range(ends[span.first], ends[span.end], size)
    ]
    return [
        ShardTask(
            directory,
            clean,
            plan.folder,
            split,
            index,
            first,
            _pieces(ends, first, last, span.prefix),
            chunk,
            "<u2" if vocabulary <= 1 << 16 else "<u4",
            json.dumps(tokenizer, sort_keys=True),
            key,
            config.verify,
            span.part,
        )
        for index, (span, first, last) in enumerate(ranges)
    ]


def pack_shard(task: ShardTask) -> ShardEntry:
    """Encodes and writes one shard, unless it exists already."""
    shard = finished_shard(task.directory, task.split, task.index, task.key, task.verify)
    if shard is not None:
        return shard
    pair = _tokenizers(task.directory, task.tokenizer)
    return write_shard(
        task.directory,
        task.split,
        task.index,
        _records(task, pair),
        task.first_id,
        task.chunk_records,
        task.dtype,
        task.key,
        task.part,
    )


def kept_texts(clean: Path, plan: Plan, split: str) -> Iterator[tuple[list[str], ...]]:
    """Yields the sides of the split's pairs, one block at a time, in the corpus' order."""
    for block, count in enumerate(plan.kept[split]):
        if count:
            yield take_pairs(clean, plan.folder, split, Piece(block, 0, count, plan.prefix(block)))


def kept_lines(clean: Path, plan: Plan, split: str, side: int) -> Iterator[str]:
    """Yields one side of the split, line by line, without loading the other."""

    def lines(block: int, count: int) -> Iterator[str]:
        (block_lines,) = load_texts(clean, block, SIDES[side : side + 1])
        return map(block_lines.__getitem__, _rows(plan.folder, split, Piece(block, 0, count)))

    return chain.from_iterable(lines(block, count) for block, count in enumerate(plan.kept[split]) if count)


@lru_cache(maxsize=1)
def _tokenizers(directory: Path, record: str) -> TokenizerPair:
    """Loads the tokenizers once per worker, because their tables of known words make encoding fast."""
    return load_pair(directory, json.loads(record))


def _records(task: ShardTask, pair: TokenizerPair) -> Iterator[Record]:
    for piece in task.pieces:
        yield from encode_sides(pair, take_pairs(task.clean, task.plan, task.split, piece))


def encode_sides(pair: TokenizerPair, sides: Sequence[list[str]]) -> Iterator[Record]:
    """Yields the ids of records: of both sides, or of the only one; tags stand where their words' pieces begin."""
    source, *others = sides
    if others and isinstance(pair.target, LabelTokenizer) and pair.target.task == "tags":
        yield from encode_tagged(pair.source, pair.target, source, others[0])
        return
    targets = pair.target.encode(others[0]) if others else repeat(None, len(source))
    yield from zip(pair.source.encode(source), targets, strict=True)


def take_pairs(clean: Path, plan: Path, split: str, piece: Piece) -> tuple[list[str], ...]:
    """Returns each side of some of the split's pairs in a block."""
    rows = _rows(plan, split, piece)
    source, *others = (list(map(side.__getitem__, rows)) for side in load_texts(clean, piece.block))
    return ([piece.prefix + line for line in source] if piece.prefix else source, *others)


def _rows(plan: Path, split: str, piece: Piece) -> list[int]:
    """Returns their rows among the block's clean pairs."""
    kept = np.flatnonzero(load_codes(plan, piece.block) == code(split))
    rows: list[int] = kept[piece.skip : piece.skip + piece.take].tolist()
    return rows


def _pieces(ends: list[int], first: int, last: int, prefix: str = "") -> tuple[Piece, ...]:
    """Returns the parts of blocks with the kept pairs first .. last - 1; `ends`: the pairs before each block."""
    pieces = []
    block = int(np.searchsorted(ends, first, side="right")) - 1
    while first < last:
        stop = min(last, ends[block + 1])
        if stop > first:
            pieces.append(Piece(block, first - ends[block], stop - first, prefix))
        first, block = max(first, stop), block + 1
    return tuple(pieces)
