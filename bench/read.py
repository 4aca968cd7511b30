"""Shards to padded batches, Mtok/s of a core: the loader that training uses against tuned ones over Arrow and MDS.

All shuffle 16 blocks of 4,096 pairs at a time, sort them by length and cut padded batches of 4,096 tokens a side, three
tensors a batch; the peers are written in bench/read_peers.py. A core's time is the processor time of the process, the
loader's thread included; the page cache is warm. Our chunks through `webdataset` are printed beside.

    python -m bench read [--quick]
"""

import hashlib
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.peers import ROOT, peer_python
from bench.result import Result, in_turns, rate
from bench.sample_text import write_ids
from dragoman.model.shards.manifest import Manifest, Split, write_manifest
from dragoman.model.shards.reader import Chunk, ShardReader
from dragoman.model.shards.writer import write_shard
from dragoman.model.text.tokenizer import EOS, SPECIAL, SPECIAL_PIECES
from dragoman.model.text.words import WordTokenizer
from dragoman.pipelines.loaders.pairs import LaneLoader
from dragoman.pipelines.loaders.window import Window, philox_order
from dragoman.pipelines.settings import LoaderConfig

VOCABULARY, CHUNK, TOKENS, WINDOW = 10_000, 4096, 4096, 16
Pair = tuple[np.ndarray, np.ndarray]
PEERS = {"arrow": ("", "datasets (Arrow), tuned"), "mds": ("streaming", "mosaicml-streaming, tuned")}


def run(quick: bool, args: list[str]) -> Result:
    """Tokens count both sides, EOS included, padding not. The peer is the faster one."""
    torch.set_num_threads(1)
    pairs = write_ids(WINDOW * CHUNK * (2 if quick else 8), VOCABULARY)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_shards(folder / "shards", pairs)
        _write_packed(folder / "pairs.npz", pairs)
        reader = ShardReader(folder / "shards", "train")
        loader = LaneLoader(reader, LoaderConfig(lanes=1, batch_tokens=TOKENS, window_chunks=WINDOW))
        _epoch(loader)  # warms up, as the peers do
        found = in_turns(
            3 if quick else 9,
            ours=lambda: rate(lambda: _epoch(loader), time.process_time),
            webdataset=lambda: rate(lambda: _batched(_web_chunks(folder / "shards")), time.process_time),
            **{peer: partial(_peer, peer, folder) for peer in PEERS},
        )
        loader.close()
    print(f"{len(pairs):,} pairs; median of turns, Mtok/s to padded batches:")
    about = {"ours": "the training loader", "webdataset": "our chunks through webdataset"}
    for name, words in {**about, **{peer: words for peer, (_, words) in PEERS.items()}}.items():
        print(f"  {name:<11}{found[name] / 1e6:8.2f}  {words}")
    fastest = max(found[peer] for peer in PEERS)
    return Result("read", found["ours"] / 1e6, fastest / 1e6, "Mtok/s read to padded batches, one core")


def _peer(name: str, folder: Path) -> float:
    """What the peer prints, in its own environment."""
    words = [str(peer_python(PEERS[name][0])), "-m", "bench.read_peers", name, str(folder), str(TOKENS)]
    out = subprocess.run(words, check=True, cwd=ROOT, stdout=subprocess.PIPE, stderr=sys.stderr, text=True).stdout
    return float(out.split()[-1])


def _web_chunks(folder: Path) -> Iterator[Chunk]:
    """The chunks as any other program reads them."""
    import webdataset

    files = [str(path) for path in sorted(folder.glob("train-*.tar"))]
    for sample in webdataset.WebDataset(files, shardshuffle=False, empty_check=False):
        names = ("src.npy", "src_off.npy", "tgt.npy", "tgt_off.npy")
        arrays = (np.load(io.BytesIO(sample[name]), allow_pickle=False) for name in names)
        yield Chunk(json.loads(sample["json"])["first_id"], *arrays)


def _epoch(loader: LaneLoader) -> int:
    end, split = loader.epoch + 1, loader.reader.manifest.splits["train"]
    while loader.epoch < end:
        loader.step()
    return split.source_tokens + split.target_tokens


def _batched(chunks: Iterable[Chunk]) -> int:
    tokens = 0
    for number, group in enumerate(_groups(chunks)):
        window = Window.of(group)
        rows = philox_order(len(window.ids), 1, number)
        window, parts = window.batches(rows, TOKENS)
        for part in parts:
            window.batch(part)
        tokens += int(window.source_lengths.sum() + window.target_lengths.sum())
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


def _write_packed(path: Path, pairs: list[Pair]) -> None:
    """The same records for the peers: packed ids, EOS included, and lengths of each side."""
    packed: dict[str, Any] = {}
    for side, rows in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        packed[side] = np.concatenate([np.append(row, np.uint16(EOS)) for row in rows])
        packed[f"{side}_lengths"] = np.array([len(row) + 1 for row in rows], dtype=np.int32)
    np.savez(path, **packed)
