"""Training from a bucket, target tokens/s of the first epoch, against the same from a folder: 50 ms a request.

The two trainings go on by turns, a step each. The bucket is moto's server behind a proxy on this machine, so both take
processor time of their own. Printed beside: the second epoch, requests that hits in the cache cost, steps while
checkpoints are sent, chunks streamed without a cache, and how long a checkpoint holds the loop up against the copy of
its tensors.

    python -m bench storage [--quick]
"""

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from bench.result import Result, in_turns, step_by_step
from bench.s3_server import Proxy, s3_server
from bench.sample_shards import write_sample_shards
from bench.sample_text import write_ids
from bench.trainer import trainer
from dragoman.model.runs import attempts
from dragoman.model.shards import remote
from dragoman.model.shards.manifest import MANIFEST, read_manifest
from dragoman.model.shards.stream import open_reader
from dragoman.model.shards.verify import shard_files
from dragoman.model.storage.places import local_folder
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.loaders.pairs import LaneLoader
from dragoman.pipelines.settings import LoaderConfig
from dragoman.pipelines.training import checkpoint
from dragoman.pipelines.training.publishing import copied, publisher

LATENCY, VOCABULARY, TOKENS = 0.05, 8000, 512
Groups = Mapping[str, Mapping[str, Tensor]]


def run(quick: bool, args: list[str]) -> Result:
    """An epoch is as many steps as are asked for; the cache is empty before each first one."""
    steps, rounds, size = (8, 1, 1 << 26) if quick else (400, 2, 1 << 31)
    with tempfile.TemporaryDirectory() as name, s3_server("bucket") as s3:
        os.environ |= s3.environment
        folder = Path(name)
        here = write_sample_shards(folder / "shards", write_ids(20_000, VOCABULARY), VOCABULARY)
        publish_shards(here, local_folder("s3://bucket/shards", str(folder / "maker")))
        s3.fault("delay", seconds=LATENCY, times=1e12)
        numbers = iter(range(10**6))

        def fresh(what: str) -> Path:
            return folder / f"{what} {next(numbers)}"

        def elsewhere(cache: Path) -> Path:
            remote.bring_directory.cache_clear()
            return local_folder("s3://bucket/shards", str(cache))

        def beside_folder(shards: Path, reader: str = "mmap") -> tuple[float, float]:
            return step_by_step(
                lambda turn: train(here, fresh("run"), steps, turn),
                lambda turn: train(shards, fresh("run"), steps, turn, reader=reader),
            )

        kept = fresh("cache")
        train(elsewhere(kept), fresh("run"), min(steps, 50), lambda: None)
        found = {
            "first epoch": beside_folder(elsewhere(fresh("cache"))),
            "second epoch": beside_folder(elsewhere(kept)),
            "streamed": beside_folder(elsewhere(fresh("cache")), "stream"),
        }
        for what, (plain, ours) in found.items():
            print(f"{what:<13} {ours:8,.0f} target tokens/s, from a folder {plain:8,.0f}, ratio {ours / plain:.3f}")
        often = max(1, steps // 4)
        sent = in_turns(
            rounds,
            here=lambda: speed(here, fresh("run"), steps, often),
            sent=lambda: speed(here, local_folder(f"s3://bucket/{time.time_ns()}", str(fresh("cache"))), steps, often),
        )
        print(f"with 4 checkpoints {sent['here']:,.0f} target tokens/s, with 4 that are sent {sent['sent']:,.0f}")
        print(f"requests that a hit costs: {requests_of_hits(elsewhere(kept), s3)}")
        hold_ups(folder, size)
        plain, ours = found["first epoch"]
    return Result("storage", ours, plain, "target tokens/s, first epoch from a bucket", "baseline")


def publish_shards(made: Path, directory: Path) -> None:
    """The shards in `made` at the address that `directory` stands for."""
    directory.mkdir(parents=True)
    for path in made.iterdir():
        (directory / path.name).write_bytes(path.read_bytes())
    files = shard_files(read_manifest(made))
    scratch = directory / ".work"
    scratch.mkdir()
    remote.publish(directory, MANIFEST, files, scratch)


def train(
    shards: Path,
    run_dir: Path,
    steps: int,
    after_step: Callable[[], None],
    checkpoint_every: int = 10**9,
    reader: str = "mmap",
) -> int:
    """Target tokens, from the opening of the shards on; `after_step` is called after each step."""
    loader = LaneLoader(open_reader(shards, "train", reader), LoaderConfig(lanes=1, batch_tokens=TOKENS), 1)
    with trainer(shards, run_dir, "fp32", TOKENS, loader=loader) as ours:
        ours.config = replace(ours.config, max_steps=steps, checkpoint_every=checkpoint_every, log_every=1)
        ours.run(lambda step, values: after_step())
        return ours.progress.items


def speed(shards: Path, run_dir: Path, steps: int, checkpoint_every: int) -> float:
    """Target tokens/s until the last step's end; sending what is left then is no part of it."""
    began, ends = time.perf_counter(), [0.0]
    tokens = train(shards, run_dir, steps, lambda: ends.append(time.perf_counter()), checkpoint_every)
    return tokens / (ends[-1] - began)


def requests_of_hits(shards: Path, s3: Proxy) -> int:
    """Of all chunks of shards that are in the cache, once the manifest is read."""
    reader = open_reader(shards, "train", "mmap")
    s3.requests.clear()
    assert sum(chunk.records for chunk in reader) == reader.records
    return len(s3.requests)


def hold_ups(folder: Path, size: int) -> None:
    """Print how long the loop waits for a checkpoint of `size` bytes: written, or copied and sent beside."""
    tensors = {"network": {f"w{i}": torch.zeros(size // 32 // 4) for i in range(32)}}
    place = local_folder("s3://bucket/runs/large", str(folder / "large"))

    def timed(groups: Groups, run_dir: Path, attempt: int, step: int) -> None:
        checkpoint.write(run_dir, step, attempt, groups, {"step": step}, kept=False)

    began = time.perf_counter()
    copied(tensors)
    copying = time.perf_counter() - began
    (folder / "plain").mkdir()
    attempt = attempts.next_attempt(folder / "plain")
    began = time.perf_counter()
    timed(tensors, folder / "plain", attempt, 1)
    writing = time.perf_counter() - began
    with publisher(place, Ranks(0, 1, torch.device("cpu"))) as publish:
        began = time.perf_counter()
        held = copied(tensors)
        publish.save(lambda: timed(held, place, publish.attempt, 1))
        beside = time.perf_counter() - began
    print(
        f"a checkpoint of {size / 1e9:.2f} GB holds the loop up for {beside:.3f} s; the copy of its tensors takes "
        f"{copying:.3f} s, writing it {writing:.3f} s"
    )
