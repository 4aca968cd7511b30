"""Chooses the jobs that yield to a job of higher priority: those that lose least."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dragoman.services.jobs.scheduling.entries import Entry
from dragoman.services.jobs.scheduling.room import Room
from dragoman.services.jobs.states import State

Placed = list[tuple[int, float, float]]


@dataclass(frozen=True)
class Victims:
    """Jobs that yield together, and the time from which they may be asked; no jobs: it is not possible."""

    jobs: tuple[Entry, ...] = ()
    at: float = 0.0


def choose_victims(
    job: Entry, active: Sequence[Entry], room: Room, placed: Mapping[str, Placed], now: float, preempt_after: float
) -> Victims:
    """Returns as few jobs as possible that make room for `job`.

    Jobs that end anyway come first, then the lowest priority, and within it those that lose least (`Entry.loss`). Jobs
    that have not run for `preempt_after` seconds beyond their start-up are taken only if the others are not enough, and
    then none is asked before all of them have.
    """
    going = _in_order([entry for entry in active if entry.state in (State.YIELDING, State.STOPPING)], now)
    lower = [
        entry for entry in active if entry.priority < job.priority and entry.yields and entry.state == State.RUNNING
    ]
    ripe = [one for one in lower if one.ripe(preempt_after) <= now]
    chosen = _fewest(job, [*going, *_in_order(ripe, now)], room, placed)
    if not chosen and len(ripe) < len(lower):
        fresh = sorted((one for one in lower if one not in ripe), key=lambda one: (one.ripe(preempt_after), one.id))
        chosen = _fewest(job, [*going, *_in_order(ripe, now), *fresh], room, placed)
    asked = tuple(one for one in chosen if one.state != State.STOPPING)
    wait = [one.ripe(preempt_after) for one in asked if one.state == State.RUNNING]
    return Victims(asked, max([now, *wait]))


def _in_order(jobs: Sequence[Entry], now: float) -> list[Entry]:
    return sorted(jobs, key=lambda job: (job.priority, job.loss(now), -job.started, job.id))


def _fewest(job: Entry, candidates: Sequence[Entry], room: Room, placed: Mapping[str, Placed]) -> list[Entry]:
    """Returns the first candidates that make enough room, without those that turn out to be unnecessary."""
    needs, smallest = job.needs, job.needs.choices[0]

    def enough(free: Room) -> bool:
        return free.holds(needs.cpus, needs.gpus, smallest) >= smallest

    free, chosen = room.copy(), list[Entry]()
    for candidate in candidates:
        if enough(free):
            break
        free.give(placed[candidate.id])
        chosen.append(candidate)
    if not enough(free):
        return []
    for one in reversed(list(chosen)):  # spare those that lose most first
        without = room.copy()
        for other in chosen:
            if other is not one:
                without.give(placed[other.id])
        if enough(without):
            chosen.remove(one)
    return chosen
