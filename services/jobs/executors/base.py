"""The protocol between the service, which decides and records, and an executor, which places and runs processes."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from dragoman.model.confinement import VARIABLE as GRANT
from dragoman.services.jobs.records import Request
from dragoman.services.jobs.scheduling.entries import Capacity
from dragoman.services.telemetry.traceparent import VARIABLE

WAIT_VARIABLE = "RAY_JOB_STOP_WAIT_TIME_S"  # seconds that Ray waits between SIGTERM and SIGKILL; by default three


@dataclass(frozen=True)
class Start:
    """An attempt as it is submitted. `id` is JOB-aNUMBER, the same whenever it is submitted again."""

    job: str
    number: int
    verb: str
    words: tuple[str, ...]
    owner: str
    priority: int
    workers: int
    cpus: float  # per worker
    gpus: float
    spreads: bool  # True: the workers are separate processes; False: the command itself is the only worker
    trace: str = ""  # W3C traceparent, the parent of its processes; empty: none
    model_owner: str = ""  # owner of the model that it registers or promotes; empty: none
    grant: str = ""  # files that its processes may open, for `dragoman.model.confinement`; empty: all that the user may

    @property
    def id(self) -> str:
        return f"{self.job}-a{self.number}"

    def entrypoint(self, python: str, home: Path) -> str:
        """Returns the shell command of its runner, with `exec` so that a signal reaches that."""
        runner = (python, "-m", "dragoman.services.jobs.runner", str(home), self.job, str(self.number), self.verb)
        return f"exec {shlex.join([*runner, *self.words, *(['cluster.address=auto'] if self.spreads else [])])}"

    def variables(self) -> dict[str, str]:
        """Returns its processes' variables that identify the job and its owner; no others may replace them."""
        values = {"DRAGOMAN_JOB": self.job, "DRAGOMAN_ATTEMPT": str(self.number), "DRAGOMAN_OWNER": self.owner}
        values["DRAGOMAN_MODEL_OWNER"] = self.model_owner
        more = {VARIABLE: self.trace, GRANT: self.grant}
        return {**values, **{name: value for name, value in more.items() if value}}


@dataclass(frozen=True)
class Observation:
    """The executor's knowledge of an attempt."""

    state: Literal["absent", "pending", "running", "ended"]
    code: int | None = None  # exit code of an ended one, if known
    message: str = ""


class Executor(Protocol):
    """Every method may raise ServiceError: the executor is not reachable, which says nothing about the attempts."""

    def submit(self, start: Start) -> None:
        """Starts an attempt; one that was submitted before is unchanged."""

    def observe(self, starts: Sequence[Start]) -> dict[str, Observation]:
        """Returns id -> what is known of each attempt."""

    def stop(self, start: Start, request: Request) -> None:
        """Asks an attempt to end gracefully; asking again changes nothing."""

    def kill(self, start: Start) -> None:
        """Ends an attempt that did not end gracefully."""

    def capacity(self) -> Capacity:
        """Returns the resources that jobs may use."""

    def incarnation(self) -> str:
        """Returns an id that changes whenever the cluster restarts; processes of an earlier one have ended."""

    def logs(self, start: Start, offset: int, limit: int) -> bytes:
        """Returns an attempt's output from byte `offset` on."""
