"""The inputs and the decisions of a scheduler's pass."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from dragoman.services.jobs.scheduling.room import Needs, Node
from dragoman.services.jobs.states import ACTIVE, State

START_UP = 600.0  # longest assumed time before the first step of a job whose first step has not been seen


@dataclass(frozen=True, slots=True)
class Entry:
    """A job as the scheduler sees it. Times are seconds since 1970."""

    id: str
    owner: str  # a person or a team: whose quota and share it counts for
    state: State
    priority: int
    age: int  # its order among its owner's jobs of one priority
    needs: Needs
    run: str = ""  # two jobs never work on the same run
    workers: int = 0  # of an active job
    started: float = 0.0
    most: float | None = None  # seconds that this attempt may run
    seconds: float | None = None  # expected running time of the rest
    blocked: str = ""  # the job that it comes after, which has not succeeded
    yields: bool = True  # True if it resumes later where it was
    stepped: float | None = None  # when the running attempt began its first step; None: not seen yet

    @property
    def active(self) -> bool:
        return self.state in ACTIVE

    @property
    def ending(self) -> bool:
        """Returns True if it was asked to end."""
        return self.state in (State.YIELDING, State.STOPPING)

    def ripe(self, preempt_after: float) -> float:
        """Returns the time from which a running job may be asked to yield."""
        if not preempt_after:
            return self.started
        return (self.started + START_UP if self.stepped is None else self.stepped) + preempt_after


@dataclass(frozen=True, slots=True)
class Capacity:
    """The cluster's resources."""

    nodes: tuple[Node, ...]
    drivers: int = 1_000_000  # most active jobs


@dataclass(frozen=True)
class Rules:
    """Settings of the scheduler, and what owners have used. Times are in seconds."""

    weights: Mapping[str, float] = field(default_factory=dict)  # owner -> parts of the cluster; 1 for others
    preempt_after: float = 0.0  # time that a job runs beyond its start-up before it is asked to yield
    used: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # owner -> CPUs and GPUs held recently


@dataclass(frozen=True, slots=True)
class Start:
    """Start the job with so many workers."""

    job: str
    workers: int
    reason: str


@dataclass(frozen=True, slots=True)
class Yield:
    """Ask the job to yield."""

    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End the job: its time is over."""

    job: str
    reason: str


Kind = Literal["after", "run", "never", "quota", "held", "room", "reserved", "drivers", "preempting", "ripening"]


class Wait(NamedTuple):
    """The reason why a job does not start in this pass."""

    kind: Kind
    resource: str = ""  # CPU or GPU, if one of them is short; job, if too many run
    needed: float = 0.0
    free: float = 0.0
    behind: str = ""  # the job that comes first or has the run, the owner of the quota, or the yielding jobs
    ahead: int = 0  # waiting jobs with an earlier turn


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a pass: actions, and why the others wait, in the order of the queue."""

    decisions: tuple[Start | Yield | Stop, ...] = ()
    waits: Mapping[str, Wait] = field(default_factory=dict)
