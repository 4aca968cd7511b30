"""Says why a job waits: what it lacks, and who holds that."""

from collections.abc import Iterable
from dataclasses import dataclass

from dragoman.services.jobs.scheduling.entries import Entry, Wait

NEXT = "it waits for the next pass of the scheduler"


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds what another waits for."""

    job: str
    owner: str
    amount: float  # CPUs or GPUs; 0 if neither is the reason
    until: float | None  # its expected end, in seconds since 1970; None: not known


@dataclass(frozen=True, slots=True)
class Why:
    """The explanation."""

    kind: str
    text: str
    resource: str = ""
    needed: float = 0.0
    free: float = 0.0
    ahead: int = 0  # waiting jobs with an earlier turn
    holders: tuple[Holder, ...] = ()


def explain(wait: Wait | None) -> Why:
    """Explains why a job waits; `wait`: what the last pass found, None if it has not seen the job or starts it."""
    if wait is None:
        return Why("next", NEXT)
    return Why(wait.kind, sentence(wait), wait.resource, wait.needed, wait.free, wait.ahead)


def find_holders(job: Entry, wait: Wait, others: Iterable[Entry], now: float) -> tuple[Holder, ...]:
    """Returns the jobs that hold what a job waits for."""
    return tuple(_holder(entry, wait, now) for entry in others if _holds(entry, job, wait))


def sentence(wait: Wait) -> str:
    """Returns the reason of a wait as a sentence."""
    needs = f"needs {wait.needed:g} {wait.resource}{'s' * (wait.needed != 1)}"
    verb = "is" if wait.free == 1 else "are"
    lacks = f"{needs}, {wait.free:g} {verb} free"
    match wait.kind:
        case "after":
            return f"it comes after job {wait.behind}, which has not succeeded yet"
        case "run":
            return f"job {wait.behind} works on the same run"
        case "never":
            return f"{needs}; the cluster has {wait.free:g} in all"
        case "quota" if wait.resource == "job":
            return f"as many jobs run as the quota of {wait.behind} allows at once"
        case "quota":
            return f"{needs}, of the quota of {wait.behind} {wait.free:g} {verb} left"
        case "held" if wait.resource == "job":
            return f"as many jobs run as its owner's quota allows at once; job {wait.behind} comes first"
        case "held":
            return f"{needs}, of its owner's quota {wait.free:g} {verb} left and kept for job {wait.behind}"
        case "drivers":
            return "as many jobs run as the service starts at once"
        case "reserved":
            return f"{lacks}, and kept for job {wait.behind}, which it would delay"
        case "preempting":
            return f"{lacks}; asked to make room: job {wait.behind}"
        case "ripening":
            return f"{lacks}; jobs of lower priority make room when they have run for long enough: job {wait.behind}"
        case _:
            first = "1 job comes first" if wait.ahead == 1 else f"{wait.ahead} jobs come first"
            return f"{lacks}; {first}" if wait.ahead else lacks


def _holds(entry: Entry, job: Entry, wait: Wait) -> bool:
    match wait.kind:
        case "after" | "run":
            return entry.id == wait.behind
        case "quota" | "held":
            return entry.active and entry.owner == job.owner
        case "room" | "reserved" | "preempting" | "ripening":
            return entry.active and _amount(entry, wait.resource) > 0
        case "drivers":
            return entry.active
        case _:
            return False


def _holder(entry: Entry, wait: Wait, now: float) -> Holder:
    known = entry.active and entry.seconds is not None
    until = max(now, entry.started + entry.seconds) if known and entry.seconds is not None else None
    return Holder(entry.id, entry.owner, _amount(entry, wait.resource) if entry.active else 0.0, until)


def _amount(entry: Entry, resource: str) -> float:
    cpus, gpus = entry.needs.total(entry.workers)
    return {"CPU": cpus, "GPU": gpus, "job": 1.0}.get(resource, 0.0)
