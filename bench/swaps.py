"""Memory of the endpoint's process over 100 swaps of the model under load, MiB after the last against after the tenth.

python -m bench swaps [--quick]
"""

import asyncio
import tempfile
from pathlib import Path

import psutil

from bench.endpoint import SERVED, SIZES, save_random, word
from bench.result import Result
from dragoman.model.inference.translator import Translation
from dragoman.services.endpoint.batcher import Batcher
from dragoman.services.endpoint.fair_queue import tokens_of
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.models.follower import Follower
from dragoman.services.models.loaded_model import LoadedModel, load_model
from dragoman.services.models.registry import ModelVersion

CLIENTS = 4
LINE = " ".join(map(word, range(100, 104)))


class Moving:
    """A registry whose alias moves with every look."""

    number = 0

    def resolve(self, reference: str) -> ModelVersion:
        self.number += 1
        return ModelVersion(reference, str(self.number), "")


def run(quick: bool, args: list[str]) -> Result:
    """MiB after the last swap against after the tenth."""
    if args:
        raise SystemExit(f"bench swaps: {args[0]!r} is not known; the only option is --quick")
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "bundle"
        save_random(bundle, SIZES["tiny"])
        follower: Follower[LoadedModel] = Follower(
            Moving(), "bench", lambda version: load_model(bundle, engine=SERVED, version=version)
        )
        follower.load_now()
        batcher: Batcher[LoadedModel, str, Translation] = Batcher(LoadedModel.translate, tokens=tokens_of)
        batcher.start()
        queue = InferenceQueue(batcher, lambda: follower.current)
        try:
            found = asyncio.run(swap(follower, queue, 15 if quick else 100))
        finally:
            batcher.stop()
    print(f"{'swaps':>7}{'MiB':>8}")
    for number, memory in found.items():
        print(f"{number:>7}{memory:8.1f}")
    return Result("swaps", found[max(found)], found[10], "MiB after the last swap against after the tenth", "baseline")


async def swap(follower: Follower[LoadedModel], queue: InferenceQueue, swaps: int) -> dict[int, float]:
    """Swaps while clients ask; returns the memory after every tenth swap."""
    ended = asyncio.Event()

    async def ask() -> int:
        count = 0
        while not ended.is_set():
            assert follower.current is not None
            count += len(await queue.ask(follower.current, [LINE]))
        return count

    clients = [asyncio.ensure_future(ask()) for _ in range(CLIENTS)]
    found = {}
    for number in range(1, swaps + 1):
        await asyncio.to_thread(follower.look)
        if follower.error is not None:
            raise RuntimeError(follower.error)
        if number % 10 == 0 or number == swaps:
            found[number] = psutil.Process().memory_info().rss / 2**20
    ended.set()
    print(f"{sum(await asyncio.gather(*clients))} sentences meanwhile")
    return found
