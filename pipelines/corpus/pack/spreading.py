"""Tasks of a sharding on nodes that do not see this machine's disk: inputs travel with the task, results come back.

A cleaning task carries its lines and returns its clean block. A shard's task carries its kept pairs and the tokenizer,
writes the shard on its node and uploads it to the bucket; its manifest entry comes back. The bytes are those that one
machine writes. Quick steps, and those that look at everything, run here.
"""

import contextlib
import dataclasses
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dragoman.model.files import atomic_write
from dragoman.model.shards.layout import sidecar_name
from dragoman.model.shards.manifest import ShardEntry
from dragoman.model.shards.writer import recorded_shard, write_shard, write_sidecar
from dragoman.model.storage import mirror, remote
from dragoman.model.storage.places import local_folder
from dragoman.model.text.tokenizers import load_pair
from dragoman.pipelines.cluster.map import all_of, here
from dragoman.pipelines.corpus.clean.block import block_path
from dragoman.pipelines.corpus.clean.task import CleaningTask, clean_block
from dragoman.pipelines.corpus.pack.packing import ShardTask, encode_sides, pack_shard, take_pairs
from dragoman.pipelines.settings import ClusterConfig


@dataclass(frozen=True)
class Nodes:
    """The nodes for the tasks of one sharding. `cache`: this machine's; each node uses its own instead."""

    directory: Path
    cluster: ClusterConfig
    cache: Callable[[], str]  # runs on a node and returns its cache

    @property
    def apart(self) -> bool:
        """Returns True if the nodes share only the bucket with this machine."""
        return self.cluster.address is not None and mirror.remote_of(self.directory) is not None

    @property
    def near(self) -> ClusterConfig:
        """Returns the cluster for tasks that need this machine's disk."""
        return here() if self.apart else self.cluster

    def clean(self, tasks: Sequence[CleaningTask]) -> None:
        """Makes every block's clean file in the tasks' folder."""
        if not self.apart:
            all_of("cleaning", clean_block, tasks, self.cluster)
            return
        waiting = [task for task in tasks if not block_path(task.folder, task.block.number).exists()]
        folders = {task.block.number: task.folder for task in waiting}

        def keep(node_content: tuple[int, bytes]) -> int:
            number, content = node_content
            atomic_write(block_path(folders[number], number), content, durable=False)
            return number

        all_of("cleaning", _clean, waiting, self.cluster, _attach_lines, keep)

    def pack(self, tasks: Sequence[ShardTask]) -> list[ShardEntry]:
        """Makes every shard, in the directory or, if nodes share only the bucket, there."""
        elsewhere = mirror.remote_of(self.directory)
        if not self.apart or elsewhere is None:
            return all_of("writing shards", pack_shard, tasks, self.cluster)
        shards = {task: recorded_shard(task.directory, task.split, task.index, task.key) for task in tasks}
        waiting = [task for task in tasks if shards[task] is None]

        def keep(entry: ShardEntry) -> ShardEntry:
            write_sidecar(self.directory, entry)
            return entry

        send = partial(_pack, self.cache, elsewhere.address)
        done = all_of("writing shards", send, waiting, self.cluster, _attach_texts, keep)
        return [*(entry for entry in shards.values() if entry is not None), *done]


@dataclass(frozen=True)
class _Lines:
    """A cleaning task and its input: its block's bytes per side."""

    task: CleaningTask
    sides: tuple[bytes, ...]


def _attach_lines(task: CleaningTask) -> _Lines:
    return _Lines(task, tuple(task.block.read(side) for side in range(len(task.block.plain))))


def _clean(lines: _Lines) -> tuple[int, bytes]:
    """Runs on a node; returns the block's number and its clean file."""
    task = lines.task
    with tempfile.TemporaryDirectory(prefix="dragoman-clean-") as name:
        folder = Path(name)
        plain = tuple(folder / f"side-{side}" for side in range(len(lines.sides)))
        for path, content in zip(plain, lines.sides, strict=True):
            path.write_bytes(content)
        ranges = tuple((0, len(content)) for content in lines.sides)
        block = dataclasses.replace(task.block, plain=plain, ranges=ranges)
        number = clean_block(dataclasses.replace(task, folder=folder, block=block))
        return number, block_path(folder, number).read_bytes()


@dataclass(frozen=True)
class _Texts:
    """A shard's task and its input: its records per side, joined by line feeds, and the tokenizer's files."""

    task: ShardTask
    sides: tuple[bytes, ...]
    tokenizer: dict[str, bytes]


def _attach_texts(task: ShardTask) -> _Texts:
    sides: tuple[list[str], ...] = ()
    for piece in task.pieces:
        pairs = take_pairs(task.clean, task.plan, task.split, piece)
        sides = tuple([*before, *side] for before, side in zip(sides, pairs, strict=True)) if sides else pairs
    names = [str(entry["file"]) for entry in json.loads(task.tokenizer)["files"]]
    files = {name: (task.directory / name).read_bytes() for name in names}
    return _Texts(task, tuple("\n".join(side).encode() for side in sides), files)


def _pack(cache: Callable[[], str], address: str, texts: _Texts) -> ShardEntry:
    """Runs on a node; writes the shard to the bucket and to the node's cache."""
    task, place = texts.task, local_folder(address, cache())
    elsewhere = mirror.remote_of(place)
    if elsewhere is None:
        raise ValueError(f"{address}: stands for no folder")
    place.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=".part-shard-", dir=place)))
        for name, content in texts.tokenizer.items():
            (folder / name).write_bytes(content)
        pair = load_pair(folder, json.loads(task.tokenizer))
        records = encode_sides(pair, [side.decode().split("\n") if side else [] for side in texts.sides])
        entry = write_shard(
            folder, task.split, task.index, records, task.first_id, task.chunk_records, task.dtype, task.key, task.part
        )
        remote.upload(folder / entry.name, elsewhere.at(entry.name), elsewhere.patience)
        elsewhere.cache.adopt(folder / entry.name, entry.bytes, entry.sha256)
        (folder / sidecar_name(entry.name)).unlink()
    return entry
