"""How far a run has come, read from its folder: what is left to do, and what an attempt that died has lost."""

from dataclasses import dataclass
from pathlib import Path

from model.runs import checkpoints, paths
from model.runs.lines import JournalReader
from model.untrusted import WHOLE, finite


@dataclass(frozen=True)
class Progress:
    """Of a run's journal and its newest checkpoint."""

    step: int = 0
    kept: int = 0  # the newest checkpoint's
    seconds: float = 0.0  # of training, over all starts
    kept_seconds: float = 0.0  # of it until the newest checkpoint
    lost_tokens: int = 0  # of the steps after the checkpoint
    lost_seconds: float = 0.0
    damage: str = ""  # what is wrong with the journal: "its steps.jsonl line 12 is damaged"


def progress(run_dir: str | None) -> Progress:
    """Return the progress of a run; all zero where the run cannot be seen from here, or has not begun.

    Of a journal that is very large only its newest part is read.
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
