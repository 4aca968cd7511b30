"""Finds running jobs whose GPUs idle, by what their runners say in their newest samples."""

from dataclasses import dataclass
from pathlib import Path

from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.service.usage import read_use
from dragoman.services.jobs.settings import IdleConfig
from dragoman.services.jobs.states import State

SILENT = 60.0  # seconds without a sample after which nothing is known


@dataclass(frozen=True)
class Spell:
    """A time in which GPUs of a job idle. Its start is the same at every look, and so names it."""

    since: float  # seconds since 1970
    gpus: int  # that idle now


def idle_spell(home: Path, job: Job, now: float, config: IdleConfig) -> Spell | None:
    """Returns the spell of a running job; None if its GPUs work, or have idled for less than the minutes."""
    if job.state != State.RUNNING or not job.gpus:
        return None
    fresh = [use for use in read_use(home, job.id, job.attempt).values() if now - use.at < SILENT]
    since = min((use.idle_since for use in fresh if use.idle_since is not None), default=now)
    return Spell(since, sum(use.idle for use in fresh)) if now - since >= 60 * config.minutes else None
