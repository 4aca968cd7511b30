"""Decides the next state of a job whose attempt has ended: a pure function, so that every case can be tested."""

import signal
from dataclasses import dataclass, field
from typing import Any

from dragoman.conf.endings import UNAVAILABLE, USER_MISTAKE
from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.records import YIELDED
from dragoman.services.jobs.states import State

SIGNALLED = (130, 143)  # ended gracefully by SIGINT or SIGTERM
SHUTDOWN = "the service is stopped"  # the reason when all running jobs are asked to yield
PREEMPTION = "preemption"  # cause of the end of an attempt that yielded to another job
CLUSTER = "cluster"  # cause of the end of an attempt whose cluster went away, or could not start it
TROUBLE = "trouble"  # cause of the end of an attempt that met a full disk, or a server or cluster that did not answer


@dataclass(frozen=True)
class Verdict:
    """The job's next state, and the record of the attempt."""

    state: State
    outcome: str
    cause: str
    reason: str
    values: dict[str, Any] = field(default_factory=dict)  # other columns of the job


def judge_exit(job: Job, code: int, same_cluster: bool) -> Verdict:
    """Judges an attempt that ended with an exit code. `same_cluster`: the cluster of its start is still alive."""
    if code == 0:
        return Verdict(State.SUCCEEDED, "succeeded", "end", "succeeded")
    if job.state == State.STOPPING:
        return Verdict(State.STOPPED, "stopped", "stop", job.reason or "stopped")
    if code == YIELDED or code in SIGNALLED:
        cause = "signal" if job.state != State.YIELDING else "shutdown" if job.reason == SHUTDOWN else PREEMPTION
        what = job.reason if job.state == State.YIELDING else f"ended in order by a signal ({describe_code(code)})"
        return Verdict(State.WAITING, "yielded", cause, f"yielded: {what}")
    if not same_cluster:
        return _interrupted(CLUSTER, f"the cluster went away under it ({describe_code(code)})")
    if code == UNAVAILABLE:
        return _interrupted(TROUBLE, f"a server, a disk or the cluster failed ({describe_code(code)}: see its log)")
    if code == USER_MISTAKE:
        return Verdict(State.FAILED, "failed", "mistake", "the verb refuses its settings (exit code 2): see its log")
    return _failed(job, code)


def judge_vanishing(job: Job, why: str, losses: int, counts: bool = True) -> Verdict:
    """Judges an attempt whose processes are gone without a code. Not `counts`: the cluster failed, not the job."""
    if job.state == State.STOPPING:
        return Verdict(State.STOPPED, "stopped", "stop", job.reason or "stopped")
    if not counts:
        return _interrupted(CLUSTER, why)
    lost = job.losses + 1
    if lost > losses:
        return Verdict(State.LOST, "lost", "vanished", f"{why}, for the {lost}th time", {"losses": lost})
    return _interrupted("vanished", why, losses=lost)


def _failed(job: Job, code: int) -> Verdict:
    failures = job.failures + 1
    if failures > job.retries:
        tried = f" after {failures} attempts" if failures > 1 else ""
        reason = f"{describe_code(code)}{tried}: see its log"
        return Verdict(State.FAILED, "failed", f"exit {code}", reason, {"failures": failures})
    reason = f"{describe_code(code)}; tried again, {job.retries - failures} times more at most"
    return Verdict(State.WAITING, "failed", f"exit {code}", reason, {"failures": failures})


def describe_code(code: int) -> str:
    """Returns an exit code in words, with the name of the signal that ended the process, if one did."""
    number = -code if code < 0 else code - 128
    if number in list(signal.Signals):
        return f"ended by {signal.Signals(number).name}, exit code {code}"
    return f"exit code {code}"


def _interrupted(cause: str, why: str, **values: int) -> Verdict:
    """Lets the job wait again."""
    return Verdict(State.WAITING, "lost", cause, f"{why}; it goes on from its newest checkpoint", values)
