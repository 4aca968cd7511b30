"""The protocol between the service, which decides and remembers, and whoever places and runs processes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from model.confinement import VARIABLE as GRANT
from services.jobs.records import Request
from services.jobs.scheduling.entries import Capacity
from services.telemetry.traceparent import VARIABLE


@dataclass(frozen=True)
class Start:
    """An attempt as it is handed over. `id` is JOB-aNUMBER, the same whenever it is handed over again."""

    job: str
    number: int
    verb: str
    words: tuple[str, ...]
    owner: str
    priority: int
    workers: int
    cpus: float  # of one worker
    gpus: float
    spreads: bool  # the workers are processes of their own; otherwise the verb itself is the one worker
    trace: str = ""  # W3C traceparent that its processes are children of; empty: none
    model_owner: str = ""  # whose the model is that it registers or promotes; empty: nobody's
    grant: str = ""  # what its processes may open, as `model.confinement` reads it; empty: whatever their user may

    @property
    def id(self) -> str:
        return f"{self.job}-a{self.number}"

    def variables(self) -> dict[str, str]:
        """Return the variables of its processes that say what and whose they are; no others may replace them."""
        found = {"DRAGOMAN_JOB": self.job, "DRAGOMAN_ATTEMPT": str(self.number), "DRAGOMAN_OWNER": self.owner}
        found["DRAGOMAN_MODEL_OWNER"] = self.model_owner
        more = {VARIABLE: self.trace, GRANT: self.grant}
        return {**found, **{name: value for name, value in more.items() if value}}


@dataclass(frozen=True)
class Observation:
    """What the executor knows of an attempt."""

    state: Literal["absent", "pending", "running", "ended"]
    code: int | None = None  # of one that has ended, where it is known
    message: str = ""


class Executor(Protocol):
    """Every method may raise ServiceError: it cannot be reached, which says nothing about the attempts."""

    queues: bool  # whether it queues itself: then everything is handed over at once

    def submit(self, start: Start) -> None:
        """Start an attempt; one that was handed over before stays as it is."""

    def observe(self, starts: Sequence[Start]) -> dict[str, Observation]:
        """Id -> what is known of each."""

    def stop(self, start: Start, request: Request) -> None:
        """Ask an attempt to end in order; asking again changes nothing."""

    def kill(self, start: Start) -> None:
        """End one that did not end in order."""

    def capacity(self) -> Capacity:
        """What jobs may use."""

    def incarnation(self) -> str:
        """Another word for every life of the cluster: what ran in an earlier one has ended with it."""

    def logs(self, start: Start, offset: int, limit: int) -> bytes:
        """What an attempt has written, from a byte on."""
