"""Samples an attempt's use on this machine while its processes run.

The job service says in the variable DRAGOMAN_USAGE where the samples go. The runner samples, and on other machines the
first of the attempt's workers there: one process a machine holds the lock of its file.
"""

import contextlib
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from dragoman.model.files import exclusive
from dragoman.model.usage.gpus import Gpu, Gpus, of_job
from dragoman.model.usage.points import EVERY, Point, PointsFile, read_points
from dragoman.model.usage.processes import Processes, own_marks

LOOPBACK = "lo"


def machine(folder: Path) -> dict[str, float]:
    """Returns percentages 0 to 100, bytes, and bytes counted since the machine's start; `folder`: whose disk's room.

    `cpu` is the mean since the last call. Of the network the loopback interface is left out.
    """
    memory, disks = psutil.virtual_memory(), psutil.disk_io_counters()
    cards = [card for name, card in psutil.net_io_counters(pernic=True).items() if name != LOOPBACK]
    return {
        "cpu": psutil.cpu_percent(),
        "memory": memory.total - memory.available,
        "memory_total": memory.total,
        "read": disks.read_bytes if disks else 0,
        "written": disks.write_bytes if disks else 0,
        "free": psutil.disk_usage(str(folder)).free,
        "sent": sum(card.bytes_sent for card in cards),
        "received": sum(card.bytes_recv for card in cards),
    }


VARIABLE = "DRAGOMAN_USAGE"
_started = threading.Lock()


@dataclass(frozen=True)
class Order:
    """The job service's request for samples."""

    path: str  # of the samples; -HOST is added
    gpus: bool  # the attempt holds GPUs
    share: float = 0.0  # a GPU that works for less of the time is idle

    def __str__(self) -> str:
        return json.dumps(vars(self))


def start_recorder() -> Callable[[], None]:
    """Samples on a thread, and returns what ends it with a last sample. Without the variable it does nothing, neither
    where another process of the attempt samples on this machine.
    """
    text = os.environ.get(VARIABLE)
    if text is None or not _started.acquire(blocking=False):
        return lambda: None
    order, over = Order(**json.loads(text)), threading.Event()
    thread = threading.Thread(target=_record, args=(order, over), name="usage", daemon=True)
    thread.start()

    def end() -> None:
        over.set()
        thread.join(EVERY)

    return end


def _record(order: Order, over: threading.Event) -> None:
    host = re.sub(r"[^\w.-]", "_", socket.gethostname())[:100]
    path = Path(f"{order.path}-{host}")
    with exclusive(path.with_name(f".{path.name}")) as mine:
        if mine:
            Recorder(order, path).run(over)


class Recorder:
    """The samples of one attempt on this machine; those that are in the file at `path` go on."""

    def __init__(self, order: Order, path: Path) -> None:
        self.order, self.file = order, PointsFile(path, read_points(path))
        self.processes, self.gpus = Processes(own_marks()), Gpus()
        self._before = self.file.points[-1] if self.file.points else {}
        self._busy: dict[str, float] = {}  # UUID of a GPU of the job -> when it was last at work
        psutil.cpu_percent()  # the first call starts the measurement

    def run(self, over: threading.Event) -> None:
        """Adds a sample every EVERY seconds, the first at once, the last when `over` is set."""
        ending = False
        while True:
            with contextlib.suppress(OSError, psutil.Error):  # a full disk, or a counter that was away
                self.file.add(self.sample(time.time()))
            if ending:
                return
            ending = over.wait(EVERY)

    def sample(self, now: float) -> Point:
        use, gpus = self.processes.look(), self.gpus.read()
        point = {"at": now, "memory": float(use.memory)}
        for name, value in use.count._asdict().items():
            point[name] = value + self._before.get(name, 0.0)  # of processes before a restart of the workers
        point |= {f"machine_{name}": value for name, value in machine(self.file.path.parent).items()}
        own = of_job(gpus, use.pids, os.environ.get("CUDA_VISIBLE_DEVICES"), self.order.gpus)
        return point | _use("gpu", own) | _use("machine_gpu", gpus) | self._idle(own, now)

    def _idle(self, own: list[Gpu], now: float) -> dict[str, float]:
        """Returns the number of the job's GPUs that idle, and the time since which the first of them does."""
        visible = [gpu for gpu in own if gpu.use is not None]
        for card in visible:
            if (card.use or 0.0) >= 100 * self.order.share:
                self._busy[card.uuid] = now
        since = [self._busy.setdefault(gpu.uuid, now) for gpu in visible]
        idle = [at for at in since if at < now]
        return {"idle": len(idle), "idle_since": min(idle)} if idle else {"idle": 0} if visible else {}


def _use(name: str, gpus: list[Gpu]) -> dict[str, float]:
    if not gpus:
        return {}
    uses = [gpu.use for gpu in gpus if gpu.use is not None]
    mean = {name: sum(uses) / len(uses)} if uses else {}
    return mean | {f"{name}_memory": sum(gpu.memory for gpu in gpus)}
