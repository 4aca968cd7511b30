"""Chooses the implementation for each device: the only place where CPU and GPU code differ.

docs/speed.md has the measurements behind the choices. On a CPU the flash backward of `scaled_dot_product_attention`
and `bernoulli_` inside `nn.Dropout` are slow on short sentences, and it pays to write logits to memory that stays in
the cache; together the choices are 1.8 times as fast in fp32. On a GPU we use the library's fused kernels.
"""

import os
from dataclasses import dataclass
from typing import Literal

import torch

from dragoman.model.errors import UserError


@dataclass(frozen=True)
class Kernels:
    """The implementations for one kind of device."""

    attention: Literal["matmul", "sdpa"]  # model/layers/attention.py
    dropout: Literal["bytes", "native"]  # model/layers/dropout.py
    cross_entropy: Literal["chunked", "native"]  # model/layers/losses.py
    padded_recurrence: Literal["held", "packed"]  # model/layers/recurrent.py: keeps padding out of the states
    lstm_step: Literal["written", "fused"]  # model/layers/recurrent.py: one step; fused, a CPU rearranges the weights
    attention_chunk: int  # model/layers/attention_scores.py: elements B x T x S x D of additive attention at a time
    ddp_backend: Literal["gloo", "nccl"]
    length_multiple: int  # pad T and S to a multiple: tensor cores prefer 8, a CPU pays for every column


KERNELS = {
    "cpu": Kernels("matmul", "bytes", "chunked", "held", "written", 2**18, "gloo", length_multiple=1),
    "cuda": Kernels("sdpa", "native", "native", "packed", "fused", 2**26, "nccl", length_multiple=8),
}


def kernels(device: torch.device) -> Kernels:
    """Returns the implementations for `device`; kinds that we have not measured use the CPU's portable ones."""
    return KERNELS.get(device.type, KERNELS["cpu"])


def pick_device(device: str, local_rank: int = 0) -> torch.device:
    """Turns `auto`, `cpu` or `cuda` into a device."""
    count = torch.cuda.device_count()
    if device == "cuda" and count <= local_rank:
        raise UserError(f"cluster.device='cuda': torch sees {count} GPUs here, GPU {local_rank} was asked for")
    if device == "cpu" or count == 0:
        return torch.device("cpu")
    return torch.device("cuda", local_rank)


def use_cores(share: int, most: int = 0) -> int:
    """Gives this process its share of the cores (`share` processes run here), at most `most` threads unless that is 0.

    Returns the number of threads.
    """
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = max(1, min(available // share, most or available))
    torch.set_num_threads(threads)
    return threads
