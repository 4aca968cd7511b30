"""A stand-in for NVIDIA's library with the calls that `model/usage/gpus.py` makes. STAND_IN_GPUS names a JSON file:
a list of {"use": percent or null, "memory": bytes, "pids": [...], "own": true: the calling process computes on it}."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    pass


def _gpus() -> list[dict[str, Any]]:
    path = os.environ.get("STAND_IN_GPUS")
    if path is None:
        raise NVMLError("no driver")
    found: list[dict[str, Any]] = json.loads(Path(path).read_text())
    return found


def nvmlInit() -> None:  # noqa: N802  # the library's names
    _gpus()


def nvmlDeviceGetCount() -> int:  # noqa: N802
    return len(_gpus())


def nvmlDeviceGetHandleByIndex(index: int) -> int:  # noqa: N802
    return index


def nvmlDeviceGetUUID(handle: int) -> str:  # noqa: N802
    return f"GPU-{handle}"


def nvmlDeviceGetMemoryInfo(handle: int) -> SimpleNamespace:  # noqa: N802
    if _gpus()[handle].get("gone"):
        raise NVMLError("GPU is lost")
    return SimpleNamespace(used=_gpus()[handle].get("memory", 0), total=80 * 2**30)


def nvmlDeviceGetUtilizationRates(handle: int) -> SimpleNamespace:  # noqa: N802
    if _gpus()[handle].get("use") is None:
        raise NVMLError("Not Supported")
    return SimpleNamespace(gpu=_gpus()[handle]["use"], memory=0)


def nvmlDeviceGetComputeRunningProcesses(handle: int) -> list[SimpleNamespace]:  # noqa: N802
    one = _gpus()[handle]
    pids = [*one.get("pids", []), *([os.getpid()] if one.get("own") else [])]
    return [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in pids]
