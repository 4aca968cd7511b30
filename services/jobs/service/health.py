"""Says what is not well (cluster, MLflow, endpoint, disk, failures of the last hour), and names nobody."""

import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx
from sqlalchemy import func, select

from dragoman.model.plural import plural
from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.states import State

FRESH = 5.0  # seconds that an answer is good for
HOUR = 3600.0
LEAST_FREE, LEAST_SHARE = 2e9, 0.03  # bytes, part of the disk
TIMEOUT = 2.0  # seconds for MLflow's answer
NAMES = {"ray": "Ray", "mlflow": "MLflow", "endpoint": "the endpoint"}
TROUBLE = {  # first word of a child's state; the rest may hold what nobody else is to read
    "stopped": "stands still: its process is stopped, and goes on after kill -CONT",
    "trouble": "has ended, and is started again; its log is in the home's folder service",
}


class Health:
    """The health of a service and of what it needs."""

    def __init__(self, loop: Loop, tracking: str, children: Callable[[], Mapping[str, str]]) -> None:
        """`tracking` is MLflow's address, if any; `children` the states of the processes that `up` has started."""
        self.loop, self.tracking, self.children = loop, tracking, children
        self._lock = threading.Lock()
        self._at, self._seen = float("-inf"), dict[str, str]()

    def trouble(self) -> dict[str, str]:
        """Returns what is not well -> how; empty if all is."""
        with self._lock:
            if time.monotonic() - self._at > FRESH:
                self._seen, self._at = self._look(), time.monotonic()
            seen = dict(self._seen)
        if self.loop.trouble:
            seen["Ray"] = f"does not answer: {self.loop.trouble}"
        if failure := self.loop.failure():
            seen["the scheduler"] = f"stands still: {failure}"
        return seen

    def _look(self) -> dict[str, str]:
        states = self.children()
        words = {name: state.partition(":")[0] for name, state in states.items()}
        trouble = {NAMES.get(name, name): TROUBLE[word] for name, word in words.items() if word in TROUBLE}
        if self.tracking and "mlflow" not in states and not _answers(self.tracking):
            trouble[NAMES["mlflow"]] = "does not answer"
        home = self.loop.home
        for folder in (home, *(below for below in home.iterdir() if below.is_mount())):
            if room := _room(folder):
                trouble["the disk" if folder == home else f"the disk of {folder.name}"] = room
        ledger = self.loop.ledger
        failed = select(func.count()).where(
            Job.state.in_([State.FAILED, State.LOST]), Job.changed > ledger.now() - HOUR, Job.attempt > 0
        )
        if count := ledger.database.first(failed):
            trouble["jobs"] = f"{plural(count, 'job')} failed in the last hour"
        return trouble


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/health", timeout=TIMEOUT).status_code < 500
    except httpx.HTTPError:
        return False


def _room(folder: Path) -> str:
    """Returns how little room the folder's disk has; empty if it has enough."""
    usage = shutil.disk_usage(folder)
    if usage.free >= LEAST_FREE and usage.free >= LEAST_SHARE * usage.total:
        return ""
    return f"has {usage.free / 1e9:.1f} GB left of {usage.total / 1e9:,.0f}"
