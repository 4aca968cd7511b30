"""Shards to padded batches: ours through `webdataset` against plain WebDataset with one sample a pair, Mtok/s a core.

Both shuffle 65,536 pairs at a time, sort them by length and cut padded batches of 4,096 tokens a side. The memory map
and the training loader are printed beside them. Page cache warm, one thread.
"""

import hashlib
import io
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.result import Result, in_turns, rate
from bench.sample_text import write_ids
from model.text.batch import collate
from model.text.tokenizer import EOS, SPECIAL, SPECIAL_PIECES
from model.text.words import WordTokenizer
from pipelines.loaders.pairs import LaneLoader
from pipelines.loaders.window import Window, cut, philox_order
from pipelines.settings import LoaderConfig
from pipelines.shards.manifest import Manifest, Split, write_manifest
from pipelines.shards.reader import Chunk, ShardReader
from pipelines.shards.stream import stream_chunks
from pipelines.shards.writer import write_shard

VOCABULARY, CHUNK, TOKENS, WINDOW = 10_000, 4096, 4096, 16
Pair = tuple[np.ndarray, np.ndarray]


def run(quick: bool, args: list[str]) -> Result:
    """Tokens count both sides, EOS included, padding not."""
    torch.set_num_threads(1)
    pairs = write_ids(WINDOW * CHUNK * (2 if quick else 8), VOCABULARY)
    few = pairs[: 16_384 if quick else WINDOW * CHUNK]
    with tempfile.TemporaryDirectory() as folder:
        directory, peer = Path(folder) / "shards", Path(folder) / "plain.tar"
        _write_shards(directory, pairs)
        _write_plain(peer, few)
        reader = ShardReader(directory, "train")
        loader = LaneLoader(reader, LoaderConfig(lanes=1, batch_tokens=TOKENS, max_length=256))
        found = in_turns(
            3 if quick else 9,
            webdataset=lambda: rate(lambda: _batched(stream_chunks(directory, "train"))),
            mmap=lambda: rate(lambda: _batched(reader)),
            loader=lambda: rate(lambda: _epoch(loader)),
            plain=lambda: rate(lambda: _plain(peer)),
        )
        loader.close()
    print(f"{len(pairs):,} pairs; median of turns, Mtok/s to padded batches:")
    for name, about in _ABOUT.items():
        print(f"  {name:<11}{found[name] / 1e6:8.2f}  {about}")
    return Result("read", found["webdataset"] / 1e6, found["plain"] / 1e6, "Mtok/s read to padded batches, one core")


_ABOUT = {
    "webdataset": "our chunks through webdataset",
    "mmap": "our chunks through the memory map",
    "loader": "the training loader, batches handed over by its thread",
    "plain": "plain WebDataset, one sample a pair",
}


def _batched(chunks: Iterable[Chunk]) -> int:
    tokens = 0
    for number, group in enumerate(_groups(chunks)):
        window = Window.of(group)
        rows = philox_order(len(window.ids), 1, number)
        window, parts = window.batches(rows, TOKENS)
        for part in parts:
            made = window.batch(part)
            tokens += made.items + made.source_items
    return tokens


def _groups(chunks: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    group: list[Chunk] = []
    for chunk in chunks:
        group.append(chunk)
        if len(group) == WINDOW:
            yield group
            group = []
    if group:
        yield group


def _epoch(loader: LaneLoader) -> int:
    tokens, end = 0, loader.epoch + 1
    while loader.epoch < end:
        for batch in loader.step():
            tokens += batch.items + batch.source_items
    return tokens


def _plain(path: Path) -> int:
    import webdataset

    samples: Callable[..., Any] = webdataset.WebDataset
    data = samples(str(path), shardshuffle=False, empty_check=False).decode().to_tuple("src.npy", "tgt.npy")
    pairs = list(data)
    order = np.random.default_rng(1).permutation(len(pairs))
    source_lengths, target_lengths = (np.array([len(pair[side]) for pair in pairs]) for side in (0, 1))
    tokens = 0
    order, parts = cut(order, source_lengths, target_lengths, TOKENS)
    for rows in (order[part] for part in parts):
        made = collate([pairs[i][0] for i in rows], [pairs[i][1] for i in rows], rows)
        tokens += made.items + made.source_items
    return tokens


def _write_shards(directory: Path, pairs: list[Pair]) -> None:
    directory.mkdir()
    size = WINDOW * CHUNK
    entries = [
        write_shard(directory, "train", index, pairs[first : first + size], first, CHUNK, "<u2")
        for index, first in enumerate(range(0, len(pairs), size))
    ]
    tokenizer = WordTokenizer([*SPECIAL_PIECES, *map(str, range(VOCABULARY - len(SPECIAL)))])
    sha256 = hashlib.sha256(tokenizer.serialise()).hexdigest()
    file = {"side": "both", "file": "tokenizer.json", "sha256": sha256, "vocabulary": VOCABULARY}
    record = {"type": "words", "joint": True, "files": [file], "special": SPECIAL}
    write_manifest(directory, Manifest("bench", ["en", "de"], record, "<u2", {"train": Split.of(entries)}))


def _write_plain(path: Path, pairs: list[Pair]) -> None:
    import webdataset

    with webdataset.TarWriter(str(path), mtime=0) as writer:
        for number, pair in enumerate(pairs):
            members: dict[str, Any] = {"__key__": f"{number:08d}"}
            for name, ids in zip(("src.npy", "tgt.npy"), pair, strict=True):
                buffer = io.BytesIO()
                np.save(buffer, np.append(ids, np.uint16(EOS)))
                members[name] = buffer.getvalue()
            writer.write(members)
