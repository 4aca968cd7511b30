"""Chooses the number format to train in when the user does not: by the processor's instructions, never by a clock.

A CPU with bf16 instructions multiplies in bf16 several times as fast as in fp32. On one without them oneDNN emulates
the products, up to twenty times as slow as fp32, and has no bf16 LSTM at all.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn

from dragoman.model.processor import instruction_sets, processor
from dragoman.model.settings import Precision

BF16 = ("avx512_bf16", "amx_bf16", "bf16")  # the last of Arm's processors
LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")  # oneDNN's variables that keep instructions from it
ABOVE = ("ALL", "DEFAULT", "BF16", "FP16", "AMX", "AVX10")  # in their values: bf16's stay


@dataclass(frozen=True)
class Decision:
    """The number format to train in (never `auto`), and the reason."""

    precision: Precision
    because: str


def autocast_dtype(precision: Precision) -> torch.dtype | None:
    """Returns the type of products; None means fp32, without autocast. Resolve `auto` with `decide` first."""
    return {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]


def decide(network: nn.Module, device: torch.device) -> Decision:
    """Chooses bf16 if the device multiplies in it and every layer of `network` runs in it, else fp32."""
    if device.type == "cuda":
        name, (major, minor) = torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device)
        return Decision("bf16" if major >= 8 else "fp32", f"{name}, sm_{major}{minor}: bf16 from sm_80 on")
    refusal = cannot_run(network, "bf16", device)
    if refusal:
        return Decision("fp32", refusal)
    instructions = bf16_instructions()
    return Decision("bf16" if instructions else "fp32", f"{processor()}: {instructions or 'no instructions for bf16'}")


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


def bf16_instructions() -> str:
    """Returns the processor's instructions for products in bf16, empty if it has none or a variable forbids them."""
    for name in LIMITS:
        limit = os.environ.get(name, "ALL").upper()
        if not any(word in limit for word in ABOVE):
            return ""
    return next((name for name in instruction_sets() if name in BF16), "")
