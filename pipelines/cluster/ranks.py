"""The processes of one training run, for the training loop: sums, gathers and broadcasts that also work alone.

All common decisions of the ranks go through here, so that no rank ever decides alone.
"""

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from dragoman.model.device import kernels, pick_device, use_cores


@dataclass(frozen=True)
class Ranks:
    """This process among `world` processes."""

    rank: int
    world: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Returns True if this process writes journals, checkpoints and metrics."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """Returns the element-wise sum over all ranks, in place."""
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def gather(self, value: Any) -> list[Any]:
        """Returns every rank's value (small, plain data), in the order of ranks."""
        if self.world == 1:
            return [value]
        values: list[Any] = [None] * self.world
        dist.all_gather_object(values, value)
        return values

    def from_first(self, value: Any) -> Any:
        """Returns rank 0's value (small, plain data) on every rank."""
        if self.world == 1:
            return value
        holder = [value]
        dist.broadcast_object_list(holder, src=0)
        return holder[0]

    def wait(self) -> None:
        """Waits until every rank has called it."""
        if self.world > 1:
            dist.barrier()


def alone(device: str = "auto") -> Ranks:
    """Returns the ranks of a single process."""
    threads = os.environ.get("OMP_NUM_THREADS", "")  # the user's setting; Ray and torchrun set it only in their workers
    use_cores(1, int(threads) if threads.isdigit() else 0)
    return Ranks(0, 1, pick_device(device))


def from_environment(device: str) -> Ranks:
    """Returns the ranks from `torchrun`'s RANK, WORLD_SIZE and LOCAL_RANK, or a single process without them."""
    if "RANK" not in os.environ:
        return alone(device)
    local = int(os.environ["LOCAL_RANK"])
    chosen = pick_device(device, local)
    use_cores(int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    dist.init_process_group(kernels(chosen).ddp_backend, timeout=timedelta(minutes=30))
    return Ranks(dist.get_rank(), dist.get_world_size(), chosen)
