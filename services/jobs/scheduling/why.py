"""Explains exactly why a job waits: what it lacks, who holds that, and when it will start."""

from collections.abc import Mapping
from dataclasses import dataclass

from dragoman.services.jobs.scheduling.decide import NO_RULES, decide_queue
from dragoman.services.jobs.scheduling.entries import UNKNOWN, Capacity, Entry, Quota, Wait
from dragoman.services.jobs.scheduling.queue import Queue
from dragoman.services.jobs.scheduling.rules import Rules, Shares
from dragoman.services.jobs.scheduling.simulate import forecast
from dragoman.services.jobs.states import State

FAR = 1000  # jobs ahead beyond which no start is predicted: simulating so many takes long


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds what another waits for."""

    job: str
    owner: str
    amount: float  # CPUs or GPUs; 0 if neither is the reason
    earliest: float  # its earliest expected end
    latest: float | None  # None: not known


@dataclass(frozen=True, slots=True)
class Why:
    """The explanation. Times are seconds since 1970."""

    kind: str
    text: str
    resource: str = ""
    needed: float = 0.0
    free: float = 0.0
    ahead: int = 0  # jobs with an earlier turn
    holders: tuple[Holder, ...] = ()
    earliest: float | None = None  # its earliest start; None: unknown or never
    latest: float | None = None


def explain(
    name: str,
    queue: Queue,
    quotas: Mapping[str, Quota],
    capacity: Capacity,
    now: float,
    forecasts: bool = True,
    rules: Rules = NO_RULES,
) -> Why:
    """Explains why the waiting job `name` would wait in a pass now.

    The start is not predicted without `forecasts` (which take long if many jobs wait), nor with more than `FAR`
    jobs ahead."""
    job = queue.jobs[name]
    outcome = decide_queue(queue, quotas, capacity, now, rules, job)
    before = queue.before(job, Shares(rules, capacity, queue.active.values(), now).of)
    if outcome.first == name:
        before = []
    elif outcome.first and all(entry.id != outcome.first for entry in before):
        before.append(queue.jobs[outcome.first])
    ahead = len(before)
    wait = outcome.waits.get(name)
    if wait is None:
        return Why("next", "it starts in the next pass of the scheduler", "", 0, 0, ahead, (), now, now)
    concerned = {**queue.active, **{other: queue.jobs[other] for other in (wait.behind,) if other in queue.jobs}}
    holders = tuple(_holder(entry, wait, now) for entry in concerned.values() if _holds(entry, job, wait))
    earliest = latest = None
    if forecasts and ahead <= FAR and wait.kind not in ("never", "after"):
        earliest = forecast(queue, quotas, capacity, now, name, lambda entry: entry.low, rules=rules)
        # a start that is too far away in the best case is so in the worst
        others = before if rules.usage is None else queue.waiting(job.priority)  # shares change while it waits
        bounded = [entry.high < UNKNOWN for entry in (*others, *queue.active.values()) if entry is not job]
        if earliest is not None and all(bounded):
            latest = forecast(queue, quotas, capacity, now, name, lambda entry: entry.high, rules=rules)
    text = sentence(job, wait, ahead)
    return Why(wait.kind, text, wait.resource, wait.needed, wait.free, ahead, holders, earliest, latest)


def _holds(entry: Entry, job: Entry, wait: Wait) -> bool:
    match wait.kind:
        case "after" | "run":
            return entry.id == wait.behind
        case "quota" | "held":
            return entry.active and entry.account == job.account
        case "room" | "reserved" | "preempting" | "ripening":
            return entry.active and _amount(entry, wait.resource) > 0
        case "drivers":
            return entry.active
        case _:
            return False


def _holder(entry: Entry, wait: Wait, now: float) -> Holder:
    going = entry.state in (State.YIELDING, State.STOPPING)
    if not entry.active:
        return Holder(entry.id, entry.owner, 0, now + entry.low, None)
    latest = None if entry.high >= UNKNOWN and not going else entry.ends(now, entry.high)
    return Holder(entry.id, entry.owner, _amount(entry, wait.resource), entry.ends(now, entry.low), latest)


def _amount(entry: Entry, resource: str) -> float:
    cpus, gpus = entry.needs.total(entry.workers)
    return {"CPU": cpus, "GPU": gpus, "job": 1.0}.get(resource, 0.0)


def sentence(job: Entry, wait: Wait, ahead: int) -> str:
    """Returns the reason why a job waits whose turn comes after `ahead` others, as a sentence."""
    needs = f"needs {wait.needed:g} {wait.resource}{'s' * (wait.needed != 1)}"
    verb = "is" if wait.free == 1 else "are"
    lacks = f"{needs}, {wait.free:g} {verb} free"
    match wait.kind:
        case "after":
            return f"it comes after job {wait.behind}, which has not succeeded yet"
        case "run":
            return f"job {wait.behind} works on the same run {job.run!r}"
        case "never":
            return f"{needs}; the cluster has {wait.free:g} in all"
        case "quota" if wait.resource == "job":
            return f"as many jobs run as the quota of {wait.behind} allows at once"
        case "quota":
            return f"{needs}, of the quota of {wait.behind} {wait.free:g} {verb} left"
        case "drivers":
            return "as many jobs run as the service starts at once"
        case "reserved":
            return f"{lacks}, and reserved for job {wait.behind}, which it would delay"
        case "held":
            words = f"{needs}, of the quota of {job.account} {wait.free:g} {verb} left"
            return f"{words} and kept for job {wait.behind}, which it would delay"
        case "preempting":
            return f"{lacks}; asked to make room: job {wait.behind}"
        case "ripening":
            return f"{lacks}; jobs of lower priority make room when they have run for long enough: job {wait.behind}"
        case _:
            first = "1 job comes first" if ahead == 1 else f"{ahead} jobs come first"
            return f"{lacks}; {first}" if ahead else lacks
