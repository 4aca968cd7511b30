"""The states of a job and the changes between them; every change has a reason, which the ledger keeps.

And the quota of an owner, which bounds their active jobs."""

from enum import StrEnum
from typing import Literal, NamedTuple

Priority = Literal["low", "normal", "high"]
PRIORITIES: dict[Priority, int] = {"low": -10, "normal": 0, "high": 10}
PRIORITY_NAMES: dict[int, Priority] = {number: name for name, number in PRIORITIES.items()}


class State(StrEnum):
    """The state of a job. The value is its name in the ledger, the REST interface and the pages."""

    SUBMITTED = "submitted"  # not planned yet
    PLANNED = "planned"  # its configuration is resolved; its needs and its time are known
    WAITING = "waiting"  # for room, for another job, or for its turn
    STARTING = "starting"  # an attempt has its number; the executor was told
    RUNNING = "running"
    YIELDING = "yielding"  # asked to make room: saves a checkpoint at the next step, then waits again
    STOPPING = "stopping"  # asked to end
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"  # its processes died silently, more often than it is restarted

    __hash__ = str.__hash__  # Enum's own takes a tenth of a scheduler's pass


ENDED = frozenset({State.SUCCEEDED, State.FAILED, State.STOPPED, State.LOST})
ACTIVE = frozenset({State.STARTING, State.RUNNING, State.YIELDING, State.STOPPING})  # an attempt holds resources
QUEUED = frozenset({State.SUBMITTED, State.PLANNED, State.WAITING})
UNENDED = QUEUED | ACTIVE
_ENDS = ENDED | {State.WAITING}  # when an attempt ends, the job ends or waits again

MOVES: dict[State, frozenset[State]] = {
    State.SUBMITTED: frozenset({State.PLANNED, State.FAILED, State.STOPPED}),
    State.PLANNED: frozenset({State.WAITING, State.FAILED, State.STOPPED}),
    State.WAITING: frozenset({State.STARTING, State.FAILED, State.STOPPED}),
    State.STARTING: frozenset({State.RUNNING, State.YIELDING, State.STOPPING}) | _ENDS,
    State.RUNNING: frozenset({State.YIELDING, State.STOPPING}) | _ENDS,
    State.YIELDING: frozenset({State.STOPPING}) | _ENDS,
    State.STOPPING: _ENDS - {State.WAITING},
    **dict.fromkeys(ENDED, frozenset({State.SUBMITTED})),  # its owner retries it
}


class Quota(NamedTuple):
    """The limits of an owner's jobs together; None: no limit."""

    cpus: float | None = None
    gpus: float | None = None
    jobs: int | None = None  # that run at once
