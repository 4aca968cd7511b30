"""The processor's name and instruction sets, as Linux reports them."""

import platform
from pathlib import Path

# Instruction sets that decide how fast matrices multiply, as /proc/cpuinfo names them.
FLAGS = (
    "avx2",
    "avx512f",
    "avx512_vnni",
    "avx_vnni",
    "avx512_bf16",
    "amx_tile",
    "amx_bf16",
    "amx_int8",
    "asimd",
    "asimddp",
    "i8mm",
    "bf16",
)
INT8 = ("avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm")  # products of 8-bit integers


def processor() -> str:
    """Returns the processor's name."""
    for line in _cpuinfo():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def instruction_sets() -> list[str]:
    """Returns those of FLAGS that the processor has."""
    for line in _cpuinfo():
        if line.lower().startswith(("flags", "features")):
            there = set(line.partition(":")[2].split())
            return [flag for flag in FLAGS if flag in there]
    return []


def int8_instructions() -> list[str]:
    """Returns the processor's instructions for products of 8-bit integers; without any they are hardly faster."""
    return [name for name in instruction_sets() if name in INT8]


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
