"""What a pass of the scheduler is given, and what it decides."""

from dataclasses import dataclass
from typing import Literal

from services.jobs.scheduling.room import Needs, Node
from services.jobs.states import State

UNKNOWN = 30 * 86_400.0  # seconds that a job is taken to run where nobody knows: nothing is filled in behind it


@dataclass(frozen=True, slots=True)
class Entry:
    """A job as the scheduler sees it."""

    id: str
    owner: str
    state: State
    priority: int
    age: int  # its place in the queue among those of its priority
    needs: Needs
    run: str = ""  # two jobs never work on the same run
    low: float = 0.0  # seconds that it is expected to run from its start, at least, with its smallest number of workers
    high: float = UNKNOWN  # and at most
    workers: int = 0  # of an active one
    started: float = 0.0
    most: float | None = None  # seconds that this attempt may run
    blocked: str = ""  # why it cannot start yet, whatever is free: a job that it comes after
    yields: bool = True  # whether it goes on later where it was

    @property
    def active(self) -> bool:
        return self.state in (State.STARTING, State.RUNNING, State.YIELDING, State.STOPPING)

    def ends(self, now: float, seconds: float) -> float:
        """When it is expected to end if it runs for so long; one that is late ends any moment."""
        return max(now, self.started + seconds)


@dataclass(frozen=True, slots=True)
class Quota:
    """What an owner's jobs may hold together."""

    cpus: float | None = None
    gpus: float | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """What there is."""

    nodes: tuple[Node, ...]
    drivers: int = 1_000_000  # jobs that may be active at once


@dataclass(frozen=True, slots=True)
class Start:
    """Start it on so many workers."""

    job: str
    workers: int
    reason: str


@dataclass(frozen=True, slots=True)
class Yield:
    """Ask it to make room."""

    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End it: its time is over."""

    job: str
    reason: str


Kind = Literal["after", "run", "never", "quota", "room", "reserved", "drivers", "preempting"]


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a job is not started in this pass."""

    kind: Kind
    resource: str = ""  # CPU or GPU, where it is a matter of them
    needed: float = 0.0
    free: float = 0.0
    behind: str = ""  # the job that has the reservation, the run's or the one that is made room for


@dataclass(frozen=True, slots=True)
class Reservation:
    """The promise to the job at the head: from `at` on nothing that was filled in stands in its way."""

    job: str
    at: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """A pass: what to do, why the others wait, and what is promised to the head."""

    decisions: tuple[Start | Yield | Stop, ...]
    waits: dict[str, Wait]
    reservation: Reservation | None
