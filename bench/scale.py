"""The plan of an epoch of 10 billion pairs (ours) and of 1 billion (baseline): seconds until the first window is known.

    python -m bench scale [--quick]

A manifest of as many shards as the corpus would have is written, read by one rank and its chunks are put in order; the
shards themselves are not there, so nothing is read of them. Printed are the manifest's bytes and what the rank's memory
grows by, what the hashes of training texts take at 1 and 50 million pairs, and what a decision of the scheduler takes
on 8, 64 and 1,000 GPUs with 10,000 jobs waiting. A ratio near 10 is linear growth. --quick: 1 billion and 100 million
pairs, hashes of 1 and 5 million pairs, 1,000 jobs.
"""

import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.result import Result
from dragoman.model.shards.manifest import LENGTH_BOUNDS, Manifest, ShardEntry, Split, write_manifest
from dragoman.model.text.hashed_texts import HashedTexts, find, read, summary
from dragoman.services.jobs.scheduling.entries import Capacity, Entry
from dragoman.services.jobs.scheduling.queue import Queue
from dragoman.services.jobs.scheduling.room import Needs, Node
from dragoman.services.jobs.scheduling.simulate import Simulation
from dragoman.services.jobs.states import State

SHARD, CHUNK, TOKENS = 131_072, 4096, 30  # records of a shard and of a chunk (the defaults); tokens of a side
MEASURE = """
import json, resource, sys, time
from pathlib import Path
from dragoman.model.shards.reader import ShardReader
from dragoman.pipelines.loaders.window import philox_order
ShardReader._check_size = lambda self, entry: None  # there are no files
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before, began = peak(), time.process_time()
reader = ShardReader(Path(sys.argv[1]), "train")
opened = time.process_time() - began
first = philox_order(reader.chunks, 1, 1)[:16].tolist()
planned = time.process_time() - began
print(json.dumps({"opened": opened, "planned": planned, "mib": peak() - before, "chunks": reader.chunks}))
"""


def training_texts(pairs: int) -> None:
    """Prints what the hashes of a corpus' training texts take: bytes, and seconds of a processor."""
    keys = np.random.default_rng(1).integers(1, 2**63, 2 * pairs, np.uint64)
    asked = keys[:1000].copy()
    with tempfile.TemporaryDirectory() as folder:
        path, marks = Path(folder) / "keys", [time.process_time()]
        HashedTexts.of([keys]).write(path)
        marks.append(time.process_time())
        found = find(path, asked)
        marks.append(time.process_time())
        read(path)
        marks.append(time.process_time())
        size, bits = path.stat().st_size, summary(path)["bits"]
    assert found.all()
    written, looked, loaded = (after - before for before, after in itertools.pairwise(marks))
    print(
        f"{pairs:,} pairs: {size / 1e6:.1f} MB of hashes of {bits} bits; sorted and written in {written:.2f} s, 1,000 "
        f"sentences looked up in {looked:.2f} s, read in {loaded:.2f} s"
    )


def run(quick: bool, args: list[str]) -> Result:
    """Processor time, each size in a process of its own."""
    for gpus in (8, 64, 1000):
        decide(gpus, 1000 if quick else 10_000)
    for pairs in (10**6, 5 * 10**6 if quick else 5 * 10**7):
        training_texts(pairs)
    most = 10**9 if quick else 10**10
    seconds = {}
    with tempfile.TemporaryDirectory() as name:
        for pairs in (most // 10, most):
            folder = Path(name) / str(pairs)
            folder.mkdir()
            size = write_manifest(folder, _manifest(pairs)).stat().st_size
            found = _measure(folder)
            print(
                f"{pairs:>14,} pairs: {found['chunks']:,.0f} chunks, a manifest of {size / 2**20:,.1f} MiB; opened in "
                f"{found['opened']:.2f} s, first window known after {found['planned']:.2f} s, {found['mib']:,.0f} MiB",
                flush=True,
            )
            seconds[pairs] = found["planned"]
    return Result("scale", seconds[most], seconds[most // 10], "seconds of one core to the first window", "baseline")


def decide(gpus: int, waiting: int) -> None:
    """Jobs of 1 to 8 GPUs on machines of 8, played until 100 have ended."""
    rng = random.Random(1)
    nodes = tuple(Node(str(number), 64.0, 8.0) for number in range(gpus // 8))
    needs = [Needs((rng.choice([1, 2, 4, 8]),), 1.0, 1.0) for _ in range(waiting)]
    how = [(f"o{rng.randrange(50)}", State.WAITING, rng.choice([0, 0, 10])) for _ in range(waiting)]
    lengths = [rng.uniform(600, 86_400) for _ in range(waiting)]
    jobs = [
        Entry(str(number), *how[number], number, needs[number], low=lengths[number], high=1.5 * lengths[number])
        for number in range(waiting)
    ]
    capacity = Capacity(nodes, drivers=gpus)
    simulation = Simulation(Queue(jobs), {}, capacity, 0.0, lambda one: one.low)
    took = []
    for _ in range(100):
        began = time.process_time()
        simulation.step()
        took.append(1000 * (time.process_time() - began))
        event = simulation.next_event()
        assert event is not None
        simulation.advance(event)
    print(
        f"{gpus:>5,} GPUs, {waiting:,} jobs waiting: the first pass {took[0]:.0f} ms, then a pass for every job that "
        f"ends: median {statistics.median(took[1:]):.2f}, slowest {max(took[1:]):.1f} ms",
        flush=True,
    )


def _measure(folder: Path) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", MEASURE, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _manifest(pairs: int) -> Manifest:
    """As `dragoman shard` would write it, with sentences of equal length."""
    lengths = [0] * (len(LENGTH_BOUNDS) + 1)
    entries = []
    for number, first in enumerate(range(0, pairs, SHARD)):
        records = min(SHARD, pairs - first)
        sizes = [min(CHUNK, records - start) for start in range(0, records, CHUNK)]
        chunks = [[size * 300 * place, size, size * TOKENS, size * TOKENS] for place, size in enumerate(sizes)]
        counts = (records, records * TOKENS, records * TOKENS, chunks, lengths, lengths)
        entries.append(ShardEntry(f"train-{number:06d}.tar", records * 130, "0" * 64, first, *counts))
    tokenizer = {"files": [{"side": "both", "file": "tokenizer.model", "vocabulary": 32_000}]}
    return Manifest("simulated", ["en", "de"], tokenizer, "<u2", {"train": Split.of(entries)})
