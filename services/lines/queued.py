"""Runs a line's steps as jobs of the job service, all submitted at once, each after those that it needs."""

import time
from collections.abc import Sequence

from dragoman.model.errors import ServiceError
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.client.settings import JobsConfig
from dragoman.services.jobs.states import ACTIVE, ENDED, State
from dragoman.services.lines.board import Board
from dragoman.services.lines.here import Made
from dragoman.services.lines.recipe import Step

TICK = 1.0  # seconds between two looks at the jobs


def run_queued(client: JobClient, config: JobsConfig, steps: Sequence[Step], board: Board, made: Made) -> None:
    """Submits the steps and follows them until all have ended.

    A step's job has its address as the key: a line that is started again finds its jobs, and retries those that failed
    or whose output was deleted.
    """
    jobs: dict[str, str] = {}
    for step in steps:
        after = [jobs[one] for one in step.after if one in jobs]
        found = client.submit(
            step.verb,
            step.words,
            priority=config.priority,
            after=after,
            retries=config.retries,
            key=f"line-{step.label}",
        )
        lost = found["state"] == State.SUCCEEDED and not all(path.is_file() for path in step.witnesses)
        if lost or found["state"] in ENDED - {State.SUCCEEDED}:
            client.act(found["id"], "retry")
        jobs[step.name] = found["id"]
        board.set(step, "waiting", f"job {found['id']}")
    left = list(steps)
    while left:
        for step in list(left):
            job = client.job(jobs[step.name])
            state = job["state"]
            if state == State.SUCCEEDED:
                made(step, jobs[step.name])
                board.set(step, "done")
                left.remove(step)
            elif state in ENDED:
                board.set(step, "stopped" if state == State.STOPPED else "failed", f"{job['id']}: {job['reason']}")
                raise ServiceError(
                    f"step {step.name}: job {job['id']} {state}: {job['reason']} (dragoman logs {job['id']}). The same "
                    f"command goes on"
                )
            elif state in ACTIVE and board.seen[step.name].state != "running":
                board.set(step, "running", f"job {job['id']}")
        time.sleep(TICK if left else 0)
