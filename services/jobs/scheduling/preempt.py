"""Chooses the jobs that yield to a job of higher priority. Each saves a checkpoint first, and loses its start-up."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dragoman.services.jobs.scheduling.entries import Entry
from dragoman.services.jobs.scheduling.room import FreeResources, Placed
from dragoman.services.jobs.states import State


@dataclass(frozen=True)
class Victims:
    """Jobs that yield together, and the time from which they may be asked; no jobs: it is not possible."""

    jobs: tuple[Entry, ...] = ()
    at: float = 0.0


def choose_victims(
    job: Entry,
    active: Sequence[Entry],
    room: FreeResources,
    placed: Mapping[str, Placed],
    now: float,
    preempt_after: float,
) -> Victims:
    """Returns as few jobs as possible that make room for `job`; `active` are those that it may displace, or that end.

    Jobs that end anyway come first, then the lowest priority, and within it those that were submitted last. Jobs that
    have not run for `preempt_after` seconds beyond their start-up are taken only if the others are not enough, and then
    none is asked before all of them have.
    """
    ending = _in_order(entry for entry in active if entry.ending)
    lower = [
        entry for entry in active if entry.priority < job.priority and entry.yields and entry.state == State.RUNNING
    ]
    ripe = [entry for entry in lower if entry.ripe(preempt_after) <= now]
    chosen = _fewest(job, [*ending, *_in_order(ripe)], room, placed)
    if not chosen and len(ripe) < len(lower):
        fresh = sorted(
            (entry for entry in lower if entry not in ripe), key=lambda entry: (entry.ripe(preempt_after), entry.id)
        )
        chosen = _fewest(job, [*ending, *_in_order(ripe), *fresh], room, placed)
    running = tuple(entry for entry in chosen if entry.state != State.STOPPING)
    wait = [entry.ripe(preempt_after) for entry in running if entry.state == State.RUNNING]
    return Victims(running, max([now, *wait]))


def _in_order(jobs: Iterable[Entry]) -> list[Entry]:
    return sorted(jobs, key=lambda job: (job.priority, -job.age, job.id))


def _fewest(job: Entry, candidates: Sequence[Entry], room: FreeResources, placed: Mapping[str, Placed]) -> list[Entry]:
    """Returns the first candidates that make enough room, without those that turn out to be unnecessary."""
    free, chosen = room.copy(), list[Entry]()
    for candidate in candidates:
        if free.fits(job.needs):
            break
        free.give(placed[candidate.id])
        chosen.append(candidate)
    if not free.fits(job.needs):
        return []
    for entry in reversed(list(chosen)):  # spare those of the highest priority first
        without = room.copy()
        for other in chosen:
            if other is not entry:
                without.give(placed[other.id])
        if without.fits(job.needs):
            chosen.remove(entry)
    return chosen
