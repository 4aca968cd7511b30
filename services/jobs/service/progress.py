"""Reads a run's progress from its folder: the work left, and what a dead attempt has lost."""

from dataclasses import dataclass
from pathlib import Path

from dragoman.model.runs import checkpoints, paths
from dragoman.model.runs.lines import JournalReader
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
