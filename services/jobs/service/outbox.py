"""Sends the records of ended runs that MLflow has not received.

A run keeps its records in a spool on its disk and sends them until it ends; `dragoman sync` sends the rest.
This module runs that command for the trainings of the ledger, one after the other, as soon as the server answers.
"""

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import httpx

from dragoman.model.runs.spool import pending
from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.service.curves import run_of
from dragoman.services.jobs.states import ENDED
from dragoman.services.repeating import Repeating

TICK = 5.0  # seconds between two looks
NEWEST = 100  # ended jobs that are checked
SEND_TIMEOUT = 600.0  # seconds for one run
AGAIN = 60.0  # seconds until a run that could not be sent to an answering server is retried
logger = logging.getLogger(__name__)


class Outbox:
    """The unsent records of one service's ledger."""

    def __init__(self, ledger: Ledger, server: str, tick: float = TICK) -> None:
        """`server` is MLflow's address, http(s)."""
        self.ledger, self.server = ledger, server
        self._looked = -1
        self._left: dict[str, Path] = {}  # job -> its run's folder
        self._not_before: dict[str, float] = {}
        self._sending: subprocess.Popen[bytes] | None = None
        self.repeating = Repeating("outbox", tick, self.look)

    def stop(self) -> None:
        """Ends the thread; the next service sends the rest."""
        self.repeating.ending.set()
        if self._sending is not None:
            self._sending.terminate()
        self.repeating.stop()

    def look(self) -> int:
        """Sends unsent records if the server answers; returns how many runs are left."""
        newest = self.ledger.newest
        if newest != self._looked:
            jobs = self.ledger.jobs(ENDED, limit=NEWEST, plans=True)
            self._left = {job.id: run for job in jobs if (run := _told(job)) is not None}
            self._looked = newest
        now = time.monotonic()
        self._left = {job: run for job, run in self._left.items() if pending(run)}
        due = [job for job in self._left if self._not_before.get(job, 0.0) <= now]
        for job in due if due and self._answers() else ():
            if self.repeating.ending.is_set():
                break
            if self._send(self._left[job]):
                logger.info("job %s: MLflow has what it missed of the run", job)
                del self._left[job]
            else:
                self._not_before[job] = time.monotonic() + AGAIN
        return len(self._left)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.server.rstrip('/')}/health", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def _send(self, run: Path) -> bool:
        self._sending = subprocess.Popen(
            [sys.executable, "-m", "dragoman.services.cli", "sync", f"name={run.name}", f"paths.runs={run.parent}"],
            env={**os.environ, "MLFLOW_TRACKING_URI": self.server},  # may hold a password: not on a command line
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            return self._sending.wait(SEND_TIMEOUT) == 0
        except subprocess.TimeoutExpired:
            self._sending.kill()
            self._sending.wait()
            return False


def _told(job: Job) -> Path | None:
    """Returns the folder of a run that logs to MLflow; None if the job has none or was told not to."""
    return None if (job.plan or {}).get("changed", {}).get("tracking.offline") else run_of(job)
