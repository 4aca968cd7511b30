"""The account of an attempt: what it keeps of its run, how long it took, when its first step began."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.model.runs import checkpoints, paths
from dragoman.model.runs.lines import JournalReader, trained_seconds
from dragoman.model.untrusted import finite
from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.ledger.ledger import Ledger, UnknownJobError
from dragoman.services.jobs.ledger.statements import MEASURED
from dragoman.services.jobs.service.curves import released, run_of, score_in
from dragoman.services.jobs.service.intake import Intake
from dragoman.services.jobs.service.metrics import Metrics
from dragoman.services.jobs.service.verdict import Verdict
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


def first_step(run: Path, began: float, before: float, now: float) -> float | None:
    """Returns when the first step of an attempt began, in seconds since 1970 by the service's clock; None: no step has
    ended yet, or it cannot be seen from here.

    Args:
        run: the training's folder.
        began: when the attempt was started.
        before: seconds that the run had trained when the attempt before it ended, as far as a checkpoint kept them.
    """
    written, trained = _changed(run / paths.STEPS) + now - time.time(), trained_seconds(run)
    if trained is None or trained <= before or written < began:
        return None
    return min(now, max(began, written - (trained - before)))


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


class Accounts:
    """The accounts of a ledger's attempts."""

    def __init__(self, ledger: Ledger, intake: Intake, metrics: Metrics) -> None:
        self.ledger, self.intake, self.metrics = ledger, intake, metrics

    def begin(self, job: Job) -> None:
        """Writes to the ledger that an attempt runs."""
        started = self.ledger.mark_started(job)
        if job.attempt > 1:
            before = self.ledger.attempts(job.id)[-2]
            idle = (started.started or 0.0) - (before.ended or 0.0)
            self.metrics.recovery.labels(before.cause).observe(max(0.0, idle))

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
        self.metrics.attempts.labels(verdict.cause).inc()
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

    def first_steps(self, names: Sequence[str]) -> dict[str, float | None]:
        """Returns when the first step of each running training began, as `first_step`."""
        steps, now = {}, self.ledger.now()
        for name in names:
            try:
                job = self.ledger.job(name)
            except UnknownJobError:  # removed in the meantime
                continue
            *before, last = self.ledger.attempts(name)
            kept_seconds = before[-1].kept_seconds if before else 0.0
            run = run_of(job)
            steps[name] = first_step(run, last.decided, kept_seconds, now) if run else None
        return steps
