"""Starts the processes of `dragoman up`, restarts those that end, and ends them with all their descendants.

Every process has a variable in its environment that names its `up`; its own children inherit it. So the processes of
an `up` are found even when the process that started them is dead. When the `up` itself is killed, a guard
(`guard.py`) ends them. A file tells the next `up` about them, in case the guard was killed too.
"""

import contextlib
import json
import logging
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from dragoman.model.files import atomic_write, socket_folder
from dragoman.services.jobs.up.guard import MARK, POLL, end_marked
from dragoman.services.repeating import Repeating

PREFIX = "dragoman-"  # of the name of the sockets' folder
AGAIN = (1.0, 2.0, 5.0, 15.0, 60.0)  # seconds until a process that ended is restarted
STABLE = 120.0  # seconds after which the count of restarts begins anew
SHOWN = 4096  # last bytes of a log
logger = logging.getLogger(__name__)


@dataclass
class Child:
    """A process beside the service."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    cwd: Path
    log: Path
    prepare: Callable[[], None] = lambda: None  # before every start
    process: "subprocess.Popen[bytes] | None" = None
    starts: int = 0
    since: float = field(default=0.0)
    ended: bool = False  # its end was noticed, and its own children are ended
    rests: bool = False  # it is ended, and not started again
    anew: bool = False  # it is ended, and started again at once
    logged: int = 0  # bytes of its log before this start
    last: str = ""  # last line of its log when it ended


class Children:
    """The processes of one `up`, and the folder of their sockets, which is removed with them."""

    def __init__(self, record: Path) -> None:
        """`record` is the file that lists them."""
        self.record = record
        self.mark = secrets.token_hex(16)
        self.folder = socket_folder(PREFIX)
        self.running: list[Child] = []
        self._lock = threading.Lock()
        self._watching = Repeating("children", POLL, self._check_all)
        atomic_write(self.record, json.dumps({"mark": self.mark, "folder": str(self.folder)}))
        # In a session of its own: Ctrl-C at the terminal reaches the service, which ends the children in order.
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "dragoman.services.jobs.up.guard", self.mark, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def start(self, child: Child) -> None:
        """Starts the process, and restarts it whenever it ends."""
        self.running.append(child)
        self._start(child)
        if len(self.running) == 1:
            self._watching.start()

    def replace(self, child: Child) -> None:
        """Lets the child of this name run another command: ends the process and starts it anew."""
        with self._lock:
            old_child = next(running_child for running_child in self.running if running_child.name == child.name)
            old_child.command, old_child.environment, old_child.anew = child.command, child.environment, True
        self._watching.wake()

    def rest(self, name: str, rests: bool) -> None:
        """Ends the child of this name, or starts it again."""
        child = next(child for child in self.running if child.name == name)
        logger.info("%s %s", name, "ends: there is no work for it" if rests else "is started again: there is work")
        child.rests, child.anew = rests, not rests
        self._watching.wake()

    def states(self, ports: Mapping[str, int]) -> dict[str, str]:
        """Returns each child of `ports` -> starting, ready, resting, stopped, or trouble and its last line."""
        return {child.name.lower(): _state(child, ports[child.name.lower()]) for child in self.running}

    def stop(self) -> None:
        """Ends all processes."""
        self._watching.stop()
        with self._lock:
            end_marked(self.mark)
            for child in self.running:
                if child.process is not None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        child.process.wait(5)
            shutil.rmtree(self.folder, ignore_errors=True)
            self.record.unlink(missing_ok=True)
        self._guard.communicate()

    def _start(self, child: Child) -> None:
        with self._lock:
            if self._watching.ending.is_set():
                return
            child.prepare()
            child.log.parent.mkdir(parents=True, exist_ok=True)
            child.logged = child.log.stat().st_size if child.log.exists() else 0
            with child.log.open("ab") as log:
                child.process = subprocess.Popen(
                    child.command,
                    cwd=child.cwd,
                    env={**child.environment, MARK: f"{self.mark}/{child.name}"},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            child.starts += 1
            child.since, child.ended, child.anew = time.monotonic(), False, False

    def _check_all(self) -> None:
        for child in list(self.running):
            try:
                self._check(child)
            except (OSError, psutil.Error) as problem:  # no memory, no processes left: the next check tries again
                logger.warning("%s could not be started again: %s", child.name, problem)

    def _check(self, child: Child) -> None:
        wished = child.rests or child.anew
        if wished and not child.ended:  # a process that does not end in order is killed
            end_marked(f"{self.mark}/{child.name}")
        code = child.process.poll() if child.process is not None else None
        if code is None:
            return
        if not child.ended:  # a killed process leaves its own children, and they hold its port
            end_marked(f"{self.mark}/{child.name}")
            child.ended, child.last = True, "" if wished else last_line(child)
        if child.rests:
            return
        if time.monotonic() - child.since > STABLE:
            child.starts = 1
        if not child.anew and time.monotonic() - child.since < AGAIN[min(child.starts, len(AGAIN)) - 1]:
            return
        if not child.anew:
            text = "%s ended with code %s and is started again; its log, %s, ends with: %s"
            logger.warning(text, child.name, code, child.log, child.last)
        self._start(child)


def _state(child: Child, port: int) -> str:
    if child.rests:
        return "resting"
    running = child.process is not None and child.process.poll() is None
    if running and _is_stopped(child):
        return "stopped"
    if running and answers(port):
        return "ready"
    if running and not child.last:
        return "starting"
    return f"trouble: it ended: {child.last or last_line(child)}"


def _is_stopped(child: Child) -> bool:
    assert child.process is not None
    with contextlib.suppress(psutil.Error):
        return bool(psutil.Process(child.process.pid).status() == psutil.STATUS_STOPPED)
    return False


def answers(port: int) -> bool:
    """Returns True if a program listens there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def last_line(child: Child) -> str:
    """Returns the last line that a process has logged since its start."""
    with contextlib.suppress(OSError), child.log.open("rb") as file:
        file.seek(max(child.logged, file.seek(0, os.SEEK_END) - SHOWN))
        lines = file.read(SHOWN).decode("utf-8", "replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
    return ""


def end_left_behind(record: Path) -> int:
    """Ends what a killed `up` has left running and removes its folder; returns the number of processes."""
    try:
        stored = json.loads(record.read_text(encoding="utf-8"))
        mark, folder = str(stored["mark"]), Path(stored["folder"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    ended = end_marked(mark)
    if folder.name.startswith(PREFIX) and folder.parent in (Path(tempfile.gettempdir()), Path("/tmp")):
        shutil.rmtree(folder, ignore_errors=True)
    record.unlink(missing_ok=True)
    return ended
