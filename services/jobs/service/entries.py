"""Jobs of the ledger as the scheduler sees them."""

from collections.abc import Mapping

from dragoman.services.jobs.ledger.access import Bounds
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.scheduling.entries import UNKNOWN, Entry, Quota
from dragoman.services.jobs.scheduling.room import Needs
from dragoman.services.jobs.scheduling.rules import Rules, Usage
from dragoman.services.jobs.settings import ServiceConfig
from dragoman.services.jobs.states import State

YIELDING_VERBS = frozenset({"train"})  # commands that resume where they were


def entry(job: Job, states: Mapping[str, str]) -> Entry:
    """Returns the scheduler's view of a job. `states`: of the jobs that it comes after."""
    left = None if job.max_seconds is None else max(0.0, job.max_seconds - job.spent)
    return Entry(
        job.id,
        job.owner,
        State(job.state),
        job.priority,
        job.queued,
        Needs(tuple(job.choices) or (1,), job.cpus, job.gpus),
        job.run,
        job.seconds_low or 0.0,
        job.seconds_high or left or UNKNOWN,
        job.workers,
        job.started or 0.0,
        None if job.state == State.STARTING else left,  # it may wait in another queue, and has used no time
        next((other for other in job.after if states.get(other) != State.SUCCEEDED), ""),
        job.verb in YIELDING_VERBS,
        job.waiting_since or job.submitted,
        account=job.account,
    )


def quotas(found: Mapping[str, Bounds]) -> dict[str, Quota]:
    """Returns the ledger's quotas for the scheduler."""
    return {account: Quota(*bounds) for account, bounds in found.items()}


def rules(config: ServiceConfig) -> Rules:
    """Returns the scheduler's rules from the section `service`, without any usage."""
    share = config.fair_share
    usage = Usage(share.half_life) if share.half_life else None
    return Rules(usage, dict(share.weights), config.patience or None, config.preempt_after)
