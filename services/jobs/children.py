"""The processes that `dragoman up` starts beside itself: started again when they end, ended with everything below them.

Who was started stands in a file, so that the next `up` ends what a killed one has left behind.
"""

import contextlib
import json
import logging
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from model.files import atomic_write

PATIENCE = 20.0  # seconds to end in order
AGAIN = (1.0, 2.0, 5.0, 15.0, 60.0)  # seconds until one that ended is started again
STABLE = 120.0  # seconds after which a start counts as the first again
logger = logging.getLogger(__name__)


@dataclass
class Child:
    """A program beside the service."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    cwd: Path
    log: Path
    prepare: Callable[[], None] = lambda: None  # before every start
    process: "subprocess.Popen[bytes] | None" = None
    starts: int = 0
    since: float = field(default=0.0)


class Children:
    """Those of one `up`."""

    def __init__(self, record: Path) -> None:
        """`record` is where they are written down."""
        self.record = record
        self.running: list[Child] = []
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, name="children", daemon=True)

    def start(self, child: Child) -> None:
        """Start it, and again whenever it ends."""
        self.running.append(child)
        self._start(child)
        if not self._thread.is_alive():
            self._thread.start()

    def stop(self) -> None:
        """End all, the last started first."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(10)
        with self._lock:
            found = [child.process.pid for child in reversed(self.running) if child.process is not None]
            end_trees(found)
            for child in self.running:
                if child.process is not None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        child.process.wait(5)
            self.record.unlink(missing_ok=True)

    def _start(self, child: Child) -> None:
        with self._lock:
            if self._ending.is_set():
                return
            child.prepare()
            child.log.parent.mkdir(parents=True, exist_ok=True)
            with child.log.open("ab") as log:
                child.process = subprocess.Popen(
                    child.command,
                    cwd=child.cwd,
                    env=dict(child.environment),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            child.starts += 1
            child.since = time.monotonic()
            pids = [one.process.pid for one in self.running if one.process is not None]
            atomic_write(self.record, json.dumps({str(pid): _born(pid) for pid in pids}))

    def _watch(self) -> None:
        while not self._ending.wait(0.5):
            for child in list(self.running):
                code = child.process.poll() if child.process is not None else None
                if code is None:
                    continue
                if time.monotonic() - child.since > STABLE:
                    child.starts = 1
                pause = AGAIN[min(child.starts, len(AGAIN)) - 1]
                if time.monotonic() - child.since < pause:
                    continue
                logger.warning("%s ended with code %s and is started again; its log: %s", child.name, code, child.log)
                self._start(child)


def end_left_behind(record: Path) -> int:
    """End what an `up` that was killed has left running; how many trees of processes that were."""
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0
    same = [int(pid) for pid, born in found.items() if _born(int(pid)) == born]
    end_trees(same)
    record.unlink(missing_ok=True)
    return len(same)


def end_trees(pids: Sequence[int]) -> None:
    """SIGTERM to these processes and all below them, SIGKILL to those that stay."""
    family: list[psutil.Process] = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            one = psutil.Process(pid)
            family += [one, *one.children(recursive=True)]
    for one in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.terminate()
    _, left = psutil.wait_procs(family, timeout=PATIENCE)
    for one in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    psutil.wait_procs(left, timeout=5)


def _born(pid: int) -> float | None:
    """When a process was started: a number that is given again belongs to another."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).create_time()
    return None
