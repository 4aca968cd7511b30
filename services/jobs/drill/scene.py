"""What a drill works on: the service, a folder of its own, one training that all faults hit."""

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

from conf.interrupts import Interrupted
from model.errors import ServiceError, UserError
from model.runs import paths
from model.runs.lines import JournalReader
from model.untrusted import read_object
from services.jobs.client.client import JobClient
from services.jobs.drill import processes
from services.jobs.service.progress import Progress, progress

LOOK = 0.2  # seconds between two looks
PATIENCE = 300.0  # seconds that anything may take until the drill gives it up
ENDED = {"succeeded", "failed", "stopped", "lost"}


@dataclass
class Scene:
    """A service on this machine, and the training that runs on it."""

    service: JobClient
    other: JobClient  # the same service, asked by another owner
    home: Path
    name: str
    job: str = ""
    others: list[str] = field(default_factory=list)  # what the faults have submitted
    node: psutil.Process | None = None  # of Ray, that a fault has let join
    signal: int | None = None  # that is to end the drill

    @property
    def folder(self) -> Path:
        """Everything that the drill writes."""
        return self.home / "runs" / self.name  # where jobs may write

    @property
    def run(self) -> Path:
        return self.folder / "runs" / self.name

    def ports(self) -> dict[str, int]:
        """What listens where: jobs, ray, mlflow, endpoint."""
        found = read_object(self.home / "service" / "address.json")
        return {name: int(str(address).rpartition(":")[2]) for name, address in found.items()}

    def progress(self) -> Progress:
        """Of the training. A line that is just being written is no line yet."""
        with contextlib.suppress(ValueError):
            return progress(str(self.run))
        return Progress()

    def journal(self) -> list[dict[str, Any]]:
        """The run's, from its first step on."""
        return list(JournalReader(self.run / paths.STEPS).lines())

    def state(self) -> dict[str, Any]:
        """Of the training, as the service says it; empty while the service does not answer."""
        try:
            return dict(self.service.job(self.job))
        except ServiceError:
            return {}

    def wait(self, what: str, until: Callable[[], bool], patience: float = PATIENCE) -> float:
        """Seconds until it is so.

        Raises:
            ServiceError: it never was.
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
        """Whether the training has come beyond a step.

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
        """Wait until a job has succeeded.

        Raises:
            ServiceError: it ended otherwise.
        """
        self.wait(f"job {job} ends", lambda: self.service.job(job)["state"] in ENDED)
        found = self.service.job(job)
        if found["state"] != "succeeded":
            raise ServiceError(f"job {job} is {found['state']}: {found['reason']}")

    def clean(self, jobs: list[str]) -> None:
        """Take away jobs and files, and a node that has joined. A signal that ends the drill has come before.

        A job whose submission was not answered is found by its folder.
        """
        self.signal = None
        with contextlib.suppress(UserError, ServiceError):
            found = self.service.jobs(limit=200)["jobs"]
            jobs = [*jobs, *(one["id"] for one in found if f"{self.folder}/" in " ".join(one["words"]))]
        jobs = list(dict.fromkeys(jobs))
        for job in jobs:  # all of them first: the signal may come again
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
    """In the block SIGINT, SIGTERM and SIGHUP end the next wait of the drill, which then takes back what it made.

    They raise nothing themselves: that might come between a submission and its answer.
    """

    def end(number: int, _: FrameType | None) -> None:
        scene.signal = number

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
