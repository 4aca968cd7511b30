"""The measures of a job's use and of its machine's, with the words and units in which people read them."""

from typing import NamedTuple


class Measure(NamedTuple):
    """A measure: what it is called, and the unit that `scale` of it make."""

    label: str
    unit: str
    scale: float = 1.0

    def scaled(self, value: float) -> float:
        """Returns a value in the unit; less than half a thousandth is nothing."""
        return round(value / self.scale, 3)

    def shown(self, value: float) -> str:
        """Returns a value with its unit, never with an exponent."""
        scaled = self.scaled(value)
        return f"{scaled:,.0f} {self.unit}" if scaled >= 100 else f"{scaled:.3g} {self.unit}"


GIB, MB = 2.0**30, 1e6
MEASURES = {
    "cpu": Measure("CPU", "cores"),
    "memory": Measure("memory", "GiB", GIB),
    "gpu": Measure("GPU", "%"),
    "gpu_memory": Measure("GPU memory", "GiB", GIB),
    "read": Measure("read", "MB/s", MB),
    "written": Measure("written", "MB/s", MB),
    "machine_cpu": Measure("machine's CPU", "%"),
    "machine_memory": Measure("machine's memory", "GiB", GIB),
    "machine_gpu": Measure("machine's GPUs", "%"),
    "machine_gpu_memory": Measure("machine's GPU memory", "GiB", GIB),
    "machine_read": Measure("machine read", "MB/s", MB),
    "machine_written": Measure("machine wrote", "MB/s", MB),
    "machine_free": Measure("free disk", "GiB", GIB),
    "machine_sent": Measure("machine sent", "MB/s", MB),
    "machine_received": Measure("machine received", "MB/s", MB),
}
