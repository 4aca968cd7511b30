"""The scene of a drill: the service, a folder of its own, and one training that all faults hit."""

import contextlib
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from bench.drill import processes
from dragoman.conf.interrupts import Interrupted, handled_by
from dragoman.model.errors import ServiceError, UserError
from dragoman.model.runs import paths
from dragoman.model.runs.lines import JournalReader
from dragoman.model.untrusted import read_object
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.service.progress import Progress, progress
from dragoman.services.jobs.states import ENDED

LOOK = 0.2  # seconds between two looks
PATIENCE = 300.0  # seconds that the drill waits for anything


@dataclass
class Scene:
    """A service on this machine, and the training that runs on it."""

    service: JobClient
    other: JobClient  # the same service as another owner
    home: Path
    name: str
    job: str = ""
    others: list[str] = field(default_factory=list)  # jobs that the faults have submitted
    node: psutil.Process | None = None  # the Ray node that a fault has added
    signal: int | None = None  # the signal that ends the drill

    @property
    def folder(self) -> Path:
        """Returns the folder of everything that the drill writes."""
        return self.home / "runs" / self.name  # where jobs may write

    @property
    def run(self) -> Path:
        return self.folder / "runs" / self.name

    def ports(self) -> dict[str, int]:
        """Returns the ports of jobs, ray, mlflow and endpoint, by name."""
        found = read_object(self.home / "service" / "address.json")
        return {name: int(str(address).rpartition(":")[2]) for name, address in found.items()}

    def progress(self) -> Progress:
        """Returns the progress of the training. A line that is being written is skipped."""
        with contextlib.suppress(ValueError):
            return progress(str(self.run))
        return Progress()

    def journal(self) -> list[dict[str, Any]]:
        """Returns the lines of the run's journal."""
        return list(JournalReader(self.run / paths.STEPS).lines())

    def state(self) -> dict[str, Any]:
        """Returns the training's state by the service; empty while the service does not answer."""
        try:
            return dict(self.service.job(self.job))
        except ServiceError:
            return {}

    def wait(self, what: str, until: Callable[[], bool], patience: float = PATIENCE) -> float:
        """Waits until the condition holds and returns the seconds it took.

        Raises:
            ServiceError: it did not hold in time.
            Interrupted: a signal came.
        """
        began = time.monotonic()
        while not until():
            if self.signal is not None:
                name = signal.Signals(self.signal).name
                raise Interrupted(f"ended by {name}; its jobs and files are taken back", 128 + self.signal)
            if time.monotonic() - began > patience:
                raise ServiceError(f"the drill waited {patience:.0f} s in vain for this: {what}")
            time.sleep(LOOK)
        return time.monotonic() - began

    def further(self, than: int) -> bool:
        """Returns True if the training has passed a step.

        Raises:
            ServiceError: the training has ended.
        """
        if self.progress().step > than:
            return True
        state = self.state()
        if state.get("state") in ENDED:
            raise ServiceError(
                f"the drill's training is {state['state']}: {state['reason']} (dragoman logs {self.job})"
            )
        return False

    def finish(self, job: str) -> None:
        """Waits until a job has succeeded.

        Raises:
            ServiceError: it ended otherwise.
        """
        self.wait(f"job {job} ends", lambda: self.service.job(job)["state"] in ENDED)
        found = self.service.job(job)
        if found["state"] != "succeeded":
            raise ServiceError(f"job {job} is {found['state']}: {found['reason']}")

    def clean(self, jobs: list[str]) -> None:
        """Removes jobs, files, and a node that has joined. A signal that ends the drill has come before.

        A job whose submission was not answered is found by its folder.
        """
        self.signal = None
        with contextlib.suppress(UserError, ServiceError):
            found = self.service.jobs(limit=200)["jobs"]
            jobs = [*jobs, *(one["id"] for one in found if f"{self.folder}/" in " ".join(one["words"]))]
        jobs = list(dict.fromkeys(jobs))
        for job in jobs:  # stop all of them first: the signal may come again
            with contextlib.suppress(UserError, ServiceError):
                if self.service.job(job)["state"] not in ENDED:
                    self.service.act(job, "stop")
        for job in jobs:
            with contextlib.suppress(UserError, ServiceError):
                self.wait(f"job {job} stops", lambda job=job: self.service.job(job)["state"] in ENDED)  # type: ignore[misc]  # bound now
                self.service.remove(job)
            shutil.rmtree(self.home / "jobs" / job, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.node is not None:
            processes.send(processes.tree(self.node), signal.SIGKILL)


@contextlib.contextmanager
def ended_by_signals(scene: Scene) -> Iterator[None]:
    """Lets SIGINT, SIGTERM and SIGHUP end the next wait of the drill, which then removes what it made.

    They raise nothing themselves, as that could happen between a submission and its answer.
    """

    def end(number: int, _: FrameType | None) -> None:
        scene.signal = number

    with handled_by(end, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        yield
