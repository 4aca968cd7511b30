"""Metrics of the machine during a run: CPU, memory, network, GPU, with the names of MLflow's own monitor.

MLflow's monitor sends directly to the server and gives up when it is away; ours writes to the spool.
"""

import logging
import threading
from collections.abc import Callable, Mapping

import psutil

logger = logging.getLogger(__name__)


class SystemSampler(threading.Thread):
    """Calls `record` with a sample every `seconds`, the first one after `seconds`."""

    def __init__(self, record: Callable[[Mapping[str, float]], None], seconds: float) -> None:
        super().__init__(name="system-metrics", daemon=True)
        self.record = record
        self.seconds = seconds
        self._ending = threading.Event()

    def run(self) -> None:
        """Samples until `end`."""
        process = psutil.Process()
        psutil.cpu_percent()  # the first call starts the measurement
        process.cpu_percent()
        while not self._ending.wait(self.seconds):
            try:
                self.record(sample(process))
            except (OSError, psutil.Error) as problem:  # a machine that hides its counters, or a failing disk
                logger.warning("system metrics end: %s", problem)
                return

    def end(self) -> None:
        """Stops sampling; returns when the last sample is written."""
        self._ending.set()
        if self.is_alive():
            self.join(5.0)


def sample(process: psutil.Process) -> dict[str, float]:
    """Takes one sample: percentages 0 to 100 (the process's: 100 per core), sizes in megabytes of 10^6 bytes."""
    memory = psutil.virtual_memory()
    values = {
        "system/cpu_utilization_percentage": psutil.cpu_percent(),
        "system/system_memory_usage_megabytes": memory.used / 1e6,
        "system/system_memory_usage_percentage": 100.0 * memory.used / memory.total,
        "system/process_cpu_percentage": process.cpu_percent(),
        "system/process_memory_megabytes": process.memory_info().rss / 1e6,
    }
    return values | gpu_sample()


def gpu_sample() -> dict[str, float]:
    """Returns the memory of each GPU that this process already uses; initialises none."""
    import sys

    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return {}
    values = {}
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        values[f"system/gpu_{index}_memory_usage_megabytes"] = (total - free) / 1e6
        values[f"system/gpu_{index}_memory_usage_percentage"] = 100.0 * (total - free) / total
    return values
