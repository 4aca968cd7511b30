"""The account of an attempt: what it keeps of its run, how long it took, what a running one would lose."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.model.runs import checkpoints, paths
from dragoman.model.runs.lines import JournalReader, trained_seconds
from dragoman.model.untrusted import finite
from dragoman.services.jobs.ledger.database import Attempt, Job
from dragoman.services.jobs.ledger.ledger import Ledger, UnknownJobError
from dragoman.services.jobs.ledger.statements import MEASURED
from dragoman.services.jobs.service.curves import released, run_of, score_in
from dragoman.services.jobs.service.intake import Intake
from dragoman.services.jobs.service.verdict import (
    PREEMPTION,
    Verdict,
)
from dragoman.services.jobs.states import State


@dataclass(frozen=True)
class Progress:
    """The progress of a run, by its journal and its newest checkpoint."""

    step: int = 0
    kept: int = 0  # the newest checkpoint's step
    seconds: float = 0.0  # of training, over all starts
    kept_seconds: float = 0.0  # until the newest checkpoint
    damage: str = ""  # the journal's fault: "its steps.jsonl line 12 is damaged"


def progress(run_dir: str | None) -> Progress:
    """Returns the progress of a run; all zero if the run cannot be seen from here or has not begun.

    Of a very large journal only the newest part is read.
    """
    if not run_dir:
        return Progress()
    run = Path(run_dir)
    kept = checkpoints.newest_step(run)
    step, seconds, at_kept = 0, 0.0, 0.0
    journal = JournalReader(run / paths.STEPS)
    for line in journal.lines():
        if "loss" not in line:
            continue
        step, seconds = line["step"], finite(line.get("seconds")) or 0.0
        if step <= kept:
            at_kept = seconds
    damage = " and ".join(f"its {note}" for note in journal.notes)
    return Progress(step, kept, seconds, at_kept, damage)


@dataclass(frozen=True)
class Footprint:
    """The losses of a running attempt. Times are seconds since 1970, by the service's clock."""

    stepped: float | None = None  # start of its first step; None: no step has ended yet, or it cannot be seen
    kept: float = 0.0  # when the run's newest checkpoint was written
    preempted: int = 0  # attempts before it that made room


def footprint(run_dir: str | None, began: float, before: float, now: float, preempted: int = 0) -> Footprint:
    """Returns the footprint of an attempt.

    Args:
        run_dir: of the training; None: it trains nothing.
        began: when the attempt was started.
        before: seconds that the run had trained when the attempt before it ended, as far as a checkpoint kept them.
    """
    if not run_dir:
        return Footprint(preempted=preempted)
    run, offset = Path(run_dir), now - time.time()
    kept = max((_changed(path) + offset for path in checkpoints.every(run).values()), default=0.0)
    written, trained = _changed(run / paths.STEPS) + offset, trained_seconds(run)
    if trained is None or trained <= before or written < began:
        return Footprint(None, kept, preempted)
    return Footprint(min(now, max(began, written - (trained - before))), kept, preempted)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


class Accounts:
    """The accounts of a ledger's attempts."""

    def __init__(self, ledger: Ledger, intake: Intake) -> None:
        self.ledger, self.intake = ledger, intake

    def close(self, job: Job, verdict: Verdict, code: int | None = None) -> Progress:
        """Writes the end of an attempt to the ledger and returns the progress of its run."""
        plan = job.plan or {}
        run = progress(plan.get("run_dir") if job.verb == "train" else None)
        values = dict(verdict.values)
        if job.verb == "train":
            if verdict.outcome != "succeeded":
                values |= {"kept_step": run.kept, "kept_seconds": run.kept_seconds}
            else:
                values["metric"], values["score"] = score_in(released(run_of(job)))
        if verdict.state == State.WAITING:
            values["seconds"] = self.intake.seconds_left(job, run.kept)
        reason = f"{verdict.reason}; {run.damage}" if run.damage else verdict.reason
        self.ledger.end(job, verdict.state, verdict.outcome, verdict.cause, reason, code, **values)
        return run

    def measure(self, job: Job, run: Progress) -> None:
        """Records what the last attempt took, from the point where the one before it had saved the run."""
        plan = job.plan or {}
        *before, last = self.ledger.attempts(job.id)
        if before and job.verb != "train":  # work in several attempts has no single time
            return
        kept_step, kept_seconds = (before[-1].kept_step, before[-1].kept_seconds) if before else (0, 0.0)
        steps, training = run.step - kept_step, run.seconds - kept_seconds
        ran = (last.ended or 0) - (last.started or last.decided)
        if training > ran:  # an earlier job had trained a part of it
            return
        with self.ledger.database.write(lasting=False) as session:
            row = {"at": self.ledger.now(), "job": job.id, "cluster": self.intake.plans.cluster, "verb": job.verb}
            row |= {"shape": plan.get("shape", ""), "steps": steps, "workers": last.workers}
            row |= {"flops": float(plan.get("flops") or 0.0) / max(1, int(plan.get("steps") or 1))}
            row |= {"training": training, "around": max(0.0, ran - training)}
            session.execute(MEASURED, row)

    def footprints(self, names: Sequence[str]) -> dict[str, Footprint]:
        """Returns what running trainings would lose."""
        footprints, now = {}, self.ledger.now()
        for name in names:
            try:
                job = self.ledger.job(name)
            except UnknownJobError:  # removed in the meantime
                continue
            *before, last = self.ledger.attempts(name)
            times = sum(attempt.cause == PREEMPTION for attempt in before)
            run_dir = (job.plan or {}).get("run_dir")
            footprints[name] = footprint(run_dir, last.decided, _kept_seconds(before), now, times)
        return footprints


def _kept_seconds(before: Sequence[Attempt]) -> float:
    """Returns the seconds of training that the attempts before have saved."""
    return before[-1].kept_seconds if before else 0.0
