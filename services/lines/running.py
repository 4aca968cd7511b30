"""Runs a line's steps: one after the other in processes of this machine, or all at once as jobs of the service."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dragoman.conf.interrupts import end_with_parent
from dragoman.model.errors import FailedError
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.client.settings import JobsConfig
from dragoman.services.jobs.states import ACTIVE, ENDED, State
from dragoman.services.lines.board import Board
from dragoman.services.lines.recipe import Step

Made = Callable[[Step, str], None]  # called after a step, with its job's id


def run_here(steps: Sequence[Step], board: Board, home: Path, logs: Path, held: int, made: Made) -> None:
    """Runs the steps in order, each with its output in a file of `logs`.

    Args:
        home: `paths.root` of every step.
        held: the descriptor of the line's lock. A step holds it too, so that no other line begins beside a step whose
            line was killed.
    """
    logs.mkdir(parents=True, exist_ok=True)
    for step in steps:
        log = logs / f"{step.label}.log"
        board.set(step, "running", str(log), str(log))
        code = _run([sys.executable, "-m", "dragoman", step.verb, *step.words], home, log, held)
        if code:
            board.set(step, "failed")
            raise FailedError(
                f"step {step.name}: dragoman {step.verb} ended with exit code {code}: {_last(log)} ({log})"
            )
        made(step, "")
        board.set(step, "done")


def _run(command: Sequence[str], home: Path, log: Path, held: int) -> int:
    """Returns the exit code. If this process is interrupted, the command ends first, in order."""
    with log.open("ab") as out:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "DRAGOMAN_HOME": str(home)},
            pass_fds=(held,),
            start_new_session=True,  # a terminal's Ctrl-C reaches it through us, once
            preexec_fn=end_with_parent,
        )
        try:
            return child.wait()
        except BaseException:
            child.terminate()
            child.wait()
            raise


def _last(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


TICK = 1.0  # seconds between two looks at the jobs


def run_queued(client: JobClient, config: JobsConfig, steps: Sequence[Step], board: Board, made: Made) -> None:
    """Submits the steps and follows them until all have ended.

    A step's job has its address as the key: a line that is started again finds its jobs, and retries those that failed
    or whose output was deleted.
    """
    jobs: dict[str, str] = {}
    for step in steps:
        after = [jobs[name_before] for name_before in step.after if name_before in jobs]
        job_row = client.submit(
            step.verb,
            step.words,
            priority=config.priority,
            after=after,
            retries=config.retries,
            key=f"line-{step.label}",
        )
        lost = job_row["state"] == State.SUCCEEDED and not all(path.is_file() for path in step.witnesses)
        if lost or job_row["state"] in ENDED - {State.SUCCEEDED}:
            client.act(job_row["id"], "retry")
        jobs[step.name] = job_row["id"]
        board.set(step, "waiting", f"job {job_row['id']}")
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
                raise FailedError(
                    f"step {step.name}: job {job['id']} {state}: {job['reason']} (dragoman logs {job['id']}). The same "
                    f"command goes on"
                )
            elif state in ACTIVE and board.seen[step.name].state != "running":
                board.set(step, "running", f"job {job['id']}")
        time.sleep(TICK if left else 0)
