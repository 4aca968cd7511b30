"""Chooses the number format to train in when the user does not: measures it once on each machine.

A CPU with bf16 instructions multiplies in bf16 several times as fast as in fp32. On one without them oneDNN emulates
the products, up to twenty times as slow as fp32, and has no bf16 LSTM at all. The names of instruction sets do not tell
which (AVX-512 is not AMX, and a variable of oneDNN's may disable it), so we measure.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import torch
from torch import nn

from dragoman.model.files import atomic_write
from dragoman.model.processor import instruction_sets, processor
from dragoman.model.settings import Precision

ROWS, WIDTH, INNER = 512, 128, 512  # a feed-forward layer of the tiny networks on a quarter of a batch
FLOPS = 3 * 2 * 2 * ROWS * WIDTH * INNER  # two products forward, and two more backward for each
SECONDS = 0.15  # of measuring per number format
WORTH = 1.2  # speed-up over fp32 below which bf16 is not worth its rounding
# Variables that change how fast the same processor multiplies.
VARIABLES = (
    *("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE"),
    *("ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS"),
)


@dataclass(frozen=True)
class Rates:
    """Gflop/s of one core, forward and backward through a feed-forward layer, by number format."""

    fp32: float
    bf16: float

    @property
    def bf16_pays(self) -> bool:
        return self.bf16 >= WORTH * self.fp32

    def __str__(self) -> str:
        return f"{self.bf16:.0f} Gflop/s per core in bf16, {self.fp32:.0f} in fp32"


@dataclass(frozen=True)
class Decision:
    """The number format to train in (never `auto`), and the reason."""

    precision: Precision
    because: str


def autocast_dtype(precision: Precision) -> torch.dtype | None:
    """Returns the type of products; None means fp32, without autocast. Resolve `auto` with `decide` first."""
    return {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]


def decide(network: nn.Module, device: torch.device, root: Path) -> Decision:
    """Chooses bf16 if it pays and every layer of `network` runs in it, else fp32; `root` as in `kept_rates`."""
    if device.type == "cuda":
        name, (major, minor) = torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device)
        return Decision("bf16" if major >= 8 else "fp32", f"{name}, sm_{major}{minor}: bf16 from sm_80 on")
    refusal = cannot_run(network, "bf16", device)
    if refusal:
        return Decision("fp32", refusal)
    rates = kept_rates(root)
    return Decision("bf16" if rates.bf16_pays else "fp32", f"{rates}")


def cannot_run(network: nn.Module, precision: Precision, device: torch.device) -> str | None:
    """Returns why `network` cannot train in `precision` on `device`; None if it can.

    Only recurrent layers can fail: each needs a kernel of its own, which a processor may lack.
    """
    dtype = autocast_dtype(precision)
    for kind in sorted({type(layer) for layer in network.modules() if isinstance(layer, nn.RNNBase)}, key=str):
        with torch.random.fork_rng(devices=[]), torch.autocast(device.type, dtype, enabled=dtype is not None):
            layer = cast("Callable[..., nn.Module]", kind)(8, 8, batch_first=True, device=device)
            try:
                layer(torch.zeros(1, 2, 8, device=device))[0].sum().backward()
            except RuntimeError as problem:
                reason = str(problem).partition(". ")[0]  # the rest is advice to programmers
                return f"{processor()} has no {precision} kernel for {kind.__name__} layers ({reason})"
    return None


def kept_rates(root: Path, keep: bool = True) -> Rates:
    """Returns this machine's rates from a file in `root`/cache/precision, or measures them (`keep`: and saves them)."""
    machine = {
        "processor": processor(),
        "instruction_sets": instruction_sets(),
        "torch": torch.__version__,
        "kernels": torch.backends.cpu.get_cpu_capability(),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }
    path = root / "cache" / "precision" / f"{hashlib.sha256(json.dumps(machine).encode()).hexdigest()[:16]}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # missing or damaged: measure again
        return Rates(**json.loads(path.read_text(encoding="utf-8"))["gflops"])
    rates = measure()
    if keep:
        with contextlib.suppress(OSError):  # read-only: every start measures
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(path, json.dumps({"machine": machine, "gflops": asdict(rates)}, indent=2))
    return rates


def measure() -> Rates:
    """Measures this machine on one core, in that core's own time, so that other load hardly counts."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return Rates(_rate(None), _rate(torch.bfloat16))
    finally:
        torch.set_num_threads(threads)


def _rate(dtype: torch.dtype | None) -> float:
    x, into, out = (
        torch.full(shape, 0.01, requires_grad=True) for shape in ((ROWS, WIDTH), (INNER, WIDTH), (WIDTH, INNER))
    )

    def step() -> None:
        with torch.autocast("cpu", dtype, enabled=dtype is not None):
            y = nn.functional.linear(nn.functional.linear(x, into).relu(), out)
        torch.autograd.backward(y.sum())

    return FLOPS / _seconds(step) / 1e9


def _seconds(step: Callable[[], None]) -> float:
    """Returns this thread's time for one `step`, after a first one that prepares the kernels."""
    step()
    count, started = 0, time.thread_time()
    while (spent := time.thread_time() - started) < SECONDS:
        step()
        count += 1
    return spent / count
