"""This machine: cores, memory, disks, GPUs; reads the system and changes nothing."""

import os
import shutil
from pathlib import Path

import psutil

from dragoman.model.processor import processor


def cores() -> str:
    """Returns the logical cores, those that this process may use, and the processor's name."""
    there = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else there
    quota = cpu_quota()
    limits = f"{usable} of {there}" if usable != there else str(there)
    return f"{limits}{f', limited to {quota:g}' if quota else ''} ({processor()})"


def cpu_quota() -> float | None:
    """Returns the cores that a container may use, from its control group; None: no limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)


def busy_cores(seconds: float = 0.5) -> float:
    """Returns the cores that other programs use now, measured while this one sleeps for `seconds`."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    shares = psutil.cpu_percent(seconds, percpu=True)
    return sum(shares[core] for core in usable if core < len(shares)) / 100


def compiled_for() -> str:
    """Returns the processor that numba compiles for, in LLVM's name. Raises ImportError: numba is not installed."""
    from llvmlite import binding

    return str(binding.get_host_cpu_name())


def memory() -> tuple[float, float]:
    """Returns (all, available) in GiB, at most a container's limit."""
    use = psutil.virtual_memory()
    total, available = use.total, use.available
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
        used = int(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii"))
        total, available = min(total, limit), min(available, max(0, limit - used))
    except (OSError, ValueError):
        pass  # no control group, or no limit ("max")
    return total / 2**30, available / 2**30


def free_disk(path: Path) -> tuple[float, float]:
    """Returns (all, free) in GiB of the disk that holds `path`, or would hold it."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    usage = shutil.disk_usage(path)
    return usage.total / 2**30, usage.free / 2**30


def gpus() -> list[str]:
    """Returns one line per GPU: name, memory, compute capability, bf16."""
    import torch

    if not torch.cuda.is_available():
        return []
    lines = []
    for index in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(index)
        bf16 = "bf16" if facts.major >= 8 else "no bf16"
        lines.append(f"{facts.name}, {facts.total_memory / 2**30:.0f} GiB, sm_{facts.major}{facts.minor}, {bf16}")
    return lines
