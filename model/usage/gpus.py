"""Reads NVIDIA's GPUs through NVML; a machine without its driver has none."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pynvml


@dataclass(frozen=True)
class Gpu:
    """A GPU at this moment."""

    index: int
    uuid: str
    use: float | None  # percent of the time in which it worked; None: the driver does not tell, as for parts by MIG
    memory: int  # bytes in use
    pids: frozenset[int]  # of the processes that compute on it, as far as they can be seen from here


class Gpus:
    """The GPUs that this process sees."""

    def __init__(self) -> None:
        self._handles: list[Any] = []
        try:
            pynvml.nvmlInit()
            self._handles = [pynvml.nvmlDeviceGetHandleByIndex(at) for at in range(pynvml.nvmlDeviceGetCount())]
        except pynvml.NVMLError:  # no driver
            return

    def read(self) -> list[Gpu]:
        gpus = []
        for index, handle in enumerate(self._handles):
            try:
                memory = int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
                gpus.append(Gpu(index, str(pynvml.nvmlDeviceGetUUID(handle)), _use(handle), memory, _pids(handle)))
            except pynvml.NVMLError:  # it has fallen off the bus
                continue
        return gpus


def of_job(gpus: Sequence[Gpu], pids: Collection[int], visible: str | None, holds: bool) -> list[Gpu]:
    """Returns the GPUs of a job: those on which its processes `pids` compute and those that `visible` names.

    Args:
        visible: CUDA_VISIBLE_DEVICES of the job, indices or UUIDs; None: not set.
        holds: it was given GPUs. Where nothing says which, all that are seen from here are its own, as in a pod.
    """
    named = {word.strip() for word in (visible or "").split(",")} if holds else set()
    own = [gpu for gpu in gpus if gpu.pids & set(pids) or str(gpu.index) in named or gpu.uuid in named]
    return own or (list(gpus) if holds and visible is None else [])


def _use(handle: Any) -> float | None:
    try:
        return float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    except pynvml.NVMLError:
        return None


def _pids(handle: Any) -> frozenset[int]:
    try:
        return frozenset(int(process.pid) for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
    except pynvml.NVMLError:
        return frozenset()
