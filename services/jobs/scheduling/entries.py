"""What a pass of the scheduler is given, and what it decides."""

from dataclasses import dataclass
from typing import Literal

from services.jobs.scheduling.room import Needs, Node
from services.jobs.states import State

UNKNOWN = 30 * 86_400.0  # seconds that a job is taken to run where nobody knows: nothing is filled in behind it
START_UP = 600.0  # seconds until its first step, at most, of a job whose first step has not been seen


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
    since: float = 0.0  # when it began to wait for this turn
    stepped: float | None = None  # when the running attempt began its first step; None: not seen yet
    kept: float = 0.0  # when its newest checkpoint was written
    preempted: int = 0  # how often it has made room

    @property
    def active(self) -> bool:
        return self.state in (State.STARTING, State.RUNNING, State.YIELDING, State.STOPPING)

    def ends(self, now: float, seconds: float) -> float:
        """When it is expected to end if it runs for so long; one that is late ends any moment."""
        return max(now, self.started + seconds)

    def ripe(self, preempt_after: float) -> float:
        """Return when a running job may be asked to make room."""
        if not preempt_after:
            return self.started
        return (self.started + START_UP if self.stepped is None else self.stepped) + preempt_after

    def loss(self, now: float) -> float:
        """Return the seconds that are lost if it makes room now: the work since its newest checkpoint and its start-up,
        as often as it was preempted before and once more."""
        begun = now if self.stepped is None else min(now, self.stepped)
        return (max(0.0, begun - self.started) + now - max(begun, min(now, self.kept))) * (1 + self.preempted)


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


Kind = Literal["after", "run", "never", "quota", "held", "room", "reserved", "drivers", "preempting", "ripening"]


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a job is not started in this pass."""

    kind: Kind
    resource: str = ""  # CPU or GPU, where it is a matter of them
    needed: float = 0.0
    free: float = 0.0
    behind: str = ""  # the job that has the reservation or the run; of a quota its owner; those that make room


@dataclass(frozen=True, slots=True)
class Reservation:
    """The promise to the job at the head: from `at` on nothing that was filled in stands in its way."""

    job: str
    at: float
    strict: bool = False  # only those that end before `at` are filled in, whatever it leaves free then


@dataclass(frozen=True, slots=True)
class Outcome:
    """A pass: what to do, why the others wait, and what is promised to the head."""

    decisions: tuple[Start | Yield | Stop, ...]
    waits: dict[str, Wait]
    reservation: Reservation | None
    first: str = ""  # the job that had the first turn because it has waited for too long
