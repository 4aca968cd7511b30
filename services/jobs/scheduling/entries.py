"""The inputs and the decisions of a scheduler's pass."""

from dataclasses import dataclass
from typing import Literal

from dragoman.services.jobs.scheduling.room import Needs, Node
from dragoman.services.jobs.states import ACTIVE, State

UNKNOWN = 30 * 86_400.0  # assumed running time if it is not known: nothing is back-filled behind it
YIELD_SECONDS = 60.0  # assumed time for a checkpoint of a job that is asked to yield
START_UP = 600.0  # longest assumed time before the first step of a job whose first step has not been seen


@dataclass(frozen=True, slots=True)
class Entry:
    """A job as the scheduler sees it."""

    id: str
    owner: str
    state: State
    priority: int
    age: int  # its order in the queue within its priority
    needs: Needs
    run: str = ""  # two jobs never work on the same run
    low: float = 0.0  # least expected running seconds from its start, with its smallest number of workers
    high: float = UNKNOWN  # most expected running seconds
    workers: int = 0  # of an active job
    started: float = 0.0
    most: float | None = None  # seconds that this attempt may run
    blocked: str = ""  # why it cannot start yet, whatever is free: a job that it comes after
    yields: bool = True  # True if it resumes later where it was
    since: float = 0.0  # start of its present wait
    stepped: float | None = None  # when the running attempt began its first step; None: not seen yet
    kept: float = 0.0  # time of its newest checkpoint
    preempted: int = 0  # number of its preemptions
    account: str = ""  # whose quota and share it counts for: its project's, or its owner's

    def __post_init__(self) -> None:
        if not self.account:
            object.__setattr__(self, "account", self.owner)

    @property
    def active(self) -> bool:
        return self.state in ACTIVE

    @property
    def going(self) -> bool:
        """Returns True if it was asked to end."""
        return self.state in (State.YIELDING, State.STOPPING)

    def ends(self, now: float, seconds: float) -> float:
        """Returns its expected end after so many seconds; a late job may end at any moment."""
        return max(now, self.started + seconds)

    def leaves(self, now: float, seconds: float, yields: float | None = None) -> float:
        """Returns the same of a job that may be asked to yield at a given time, or was asked before."""
        end, yields = self.ends(now, seconds), now if self.going else yields
        return end if yields is None else min(yields + YIELD_SECONDS, end)

    def ripe(self, preempt_after: float) -> float:
        """Returns the time from which a running job may be asked to yield."""
        if not preempt_after:
            return self.started
        return (self.started + START_UP if self.stepped is None else self.stepped) + preempt_after

    def loss(self, now: float) -> float:
        """Returns the seconds lost if it yields now: its work since the newest checkpoint and its start-up.

        They count once more for every earlier preemption."""
        begun = now if self.stepped is None else min(now, self.stepped)
        return (max(0.0, begun - self.started) + now - max(begun, min(now, self.kept))) * (1 + self.preempted)


@dataclass(frozen=True, slots=True)
class Capacity:
    """The cluster's resources."""

    nodes: tuple[Node, ...]
    drivers: int = 1_000_000  # most active jobs


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


@dataclass(frozen=True, slots=True)
class Wait:
    """The reason why a job does not start in this pass."""

    kind: Kind
    resource: str = ""  # CPU or GPU, if one of them is short; job, if too many run
    needed: float = 0.0
    free: float = 0.0
    behind: str = ""  # the job with the reservation or the run, the account of the quota, or the yielding jobs


@dataclass(frozen=True, slots=True)
class Reservation:
    """The head's reservation: from `at` on no back-filled job is in its way."""

    job: str
    at: float
    strict: bool = False  # only jobs that end before `at` are back-filled, whatever it leaves free then


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a pass: actions, the others' reasons to wait, and the head's reservation."""

    decisions: tuple[Start | Yield | Stop, ...]
    waits: dict[str, Wait]
    reservation: Reservation | None
    first: str = ""  # the job that came first because it has waited too long
