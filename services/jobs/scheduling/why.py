"""Explains exactly why a job waits: what it lacks, who holds that, and when it will start."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dragoman.services.jobs.scheduling.decide import NO_RULES, decide_queue
from dragoman.services.jobs.scheduling.entries import UNKNOWN, Capacity, Entry, Wait
from dragoman.services.jobs.scheduling.queue import Queue, turn
from dragoman.services.jobs.scheduling.rules import Rules, Shares
from dragoman.services.jobs.scheduling.simulate import Seconds, Simulation
from dragoman.services.jobs.states import Quota, State

FIRST = 200  # jobs of the queue whose start is forecast
BUDGET = 0.3  # seconds for simulating them
NEVER = ("never", "after")


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
    rules: Rules = NO_RULES,
) -> Why:
    """Explains why the waiting job `name` would wait in a pass now; its start only if it is that pass."""
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
    text = sentence(job, wait, ahead)
    return Why(wait.kind, text, wait.resource, wait.needed, wait.free, ahead, holders)


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
    if not entry.active:
        return Holder(entry.id, entry.owner, 0, now + entry.low, None)
    latest = None if entry.high >= UNKNOWN and not entry.going else entry.ends(now, entry.high)
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


@dataclass(frozen=True)
class Forecast:
    """The forecast of one waiting job. Times are seconds since 1970; None: unknown."""

    text: str
    ahead: int
    earliest: float | None = None
    latest: float | None = None


def forecasts(
    jobs: Queue, quotas: Mapping[str, Quota], capacity: Capacity, now: float, rules: Rules = NO_RULES
) -> dict[str, Forecast]:
    """Returns the forecasts of all waiting jobs, in the order of the queue; of the first ones also their starts."""
    outcome = decide_queue(jobs, quotas, capacity, now, rules, every=True)
    active = list(jobs.active.values())
    share = Shares(rules, capacity, active, now).of
    waiting = (job for job in jobs.jobs.values() if job.state == State.WAITING)
    queue = sorted(waiting, key=lambda job: (job.id != outcome.first, turn(job, share)))
    first = queue[:FIRST]
    low = _starts([*active, *first], quotas, capacity, now, rules, lambda entry: entry.low)
    high = _starts([*active, *first], quotas, capacity, now, rules, lambda entry: entry.high)
    certain = all(entry.high < UNKNOWN for entry in active)
    by_job = {}
    for ahead, job in enumerate(queue):
        all_end = certain  # the ends of all jobs before it are known
        certain = certain and job.high < UNKNOWN
        wait = outcome.waits.get(job.id)
        if wait is None:
            by_job[job.id] = Forecast("it starts in the next pass of the scheduler", ahead, now, now)
            continue
        is_known = wait.kind not in NEVER
        latest = high.get(job.id) if is_known and all_end else None
        place, earliest = (ahead, low.get(job.id)) if is_known else (0, None)
        by_job[job.id] = Forecast(sentence(job, wait, ahead), place, earliest, latest)
    return by_job


def _starts(
    jobs: Sequence[Entry], quotas: Mapping[str, Quota], capacity: Capacity, now: float, rules: Rules, seconds: Seconds
) -> dict[str, float]:
    """Returns each job's first start if every job runs for `seconds`, as far as the time limit allows."""
    simulation, until = Simulation(Queue(jobs), quotas, capacity, now, seconds, rules), time.monotonic() + BUDGET
    waiting = {job.id for job in jobs if job.state == State.WAITING}
    while time.monotonic() < until:
        simulation.step()
        if waiting <= simulation.first.keys():
            break
        at = simulation.next_event()
        if at is None:
            break
        simulation.advance(at)
    return simulation.first
