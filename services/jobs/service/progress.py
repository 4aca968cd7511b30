"""Reads a run's folder: its progress, what a dead attempt has lost, and what a running one would lose now."""

import time
from dataclasses import dataclass
from pathlib import Path

from dragoman.model.runs import checkpoints, paths
from dragoman.model.runs.lines import JournalReader, trained_seconds
from dragoman.model.untrusted import WHOLE, finite


@dataclass(frozen=True)
class Progress:
    """The progress of a run, by its journal and its newest checkpoint."""

    step: int = 0
    kept: int = 0  # the newest checkpoint's step
    seconds: float = 0.0  # of training, over all starts
    kept_seconds: float = 0.0  # until the newest checkpoint
    lost_tokens: int = 0  # of the steps after the checkpoint
    lost_seconds: float = 0.0
    damage: str = ""  # the journal's fault: "its steps.jsonl line 12 is damaged"


def progress(run_dir: str | None) -> Progress:
    """Returns the progress of a run; all zero if the run cannot be seen from here or has not begun.

    Of a very large journal only the newest part is read.
    """
    if not run_dir:
        return Progress()
    run = Path(run_dir)
    kept = checkpoints.newest_step(run)
    step, seconds, at_kept, lost = 0, 0.0, 0.0, 0
    journal = JournalReader(run / paths.STEPS)
    for line in journal.lines():
        if "loss" not in line:
            continue
        step, seconds = line["step"], finite(line.get("seconds")) or 0.0
        if step <= kept:
            at_kept = seconds
        else:
            lost += line.get("tokens", 0)
    lost_seconds = max(0.0, seconds - at_kept) if step > kept else 0.0
    damage = " and ".join(f"its {note}" for note in journal.notes)
    return Progress(step, kept, seconds, at_kept, min(lost, WHOLE), lost_seconds, damage)


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
