"""Accounts of attempts: what each has kept, lost and taken, written when it ends."""

from collections.abc import Sequence

from dragoman.services.jobs.ledger.ledger import Ledger, UnknownJobError
from dragoman.services.jobs.ledger.statements import MEASURED
from dragoman.services.jobs.ledger.tables import Attempt, Job
from dragoman.services.jobs.service.curves import released, run_of, score_in
from dragoman.services.jobs.service.intake import Intake
from dragoman.services.jobs.service.progress import Footprint, Progress, footprint, progress
from dragoman.services.jobs.service.verdict import (
    PREEMPTION,
    Verdict,
)
from dragoman.services.jobs.states import State


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
            *before, last = self.ledger.attempts(job.id)
            values["startup"] = self._startup(plan.get("run_dir"), run, before, last)
            if verdict.outcome != "succeeded":
                values |= {"kept_step": run.kept, "kept_seconds": run.kept_seconds}
                if not _same_steps(run, before):
                    values |= {"lost_tokens": run.lost_tokens, "lost_seconds": run.lost_seconds}
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

    def _startup(self, run_dir: str | None, run: Progress, before: Sequence[Attempt], last: Attempt) -> float:
        """Returns the seconds of an ending attempt until its first step; all of them if it had none."""
        now = self.ledger.now()
        if _same_steps(run, before) or not run.step:
            return max(0.0, now - last.decided)
        seen = footprint(run_dir, last.decided, _kept_seconds(before), now)
        return 0.0 if seen.stepped is None else max(0.0, seen.stepped - last.decided)


def _kept_seconds(before: Sequence[Attempt]) -> float:
    """Returns the seconds of training that the attempts before have saved."""
    return before[-1].kept_seconds if before else 0.0


def _same_steps(run: Progress, before: Sequence[Attempt]) -> bool:
    """Returns True if the run has no new step since the attempt before ended: earlier losses count for that one."""
    if not before:
        return False
    last = before[-1]
    return run.seconds <= last.kept_seconds or (
        run.kept == last.kept_step and abs(run.seconds - last.kept_seconds - last.lost_seconds) < 1e-6
    )
