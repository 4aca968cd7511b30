"""How far a run has come, read from its folder: what is left to do, and what an attempt that died has lost."""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Progress:
    """Of a run's journal and its newest checkpoint."""

    step: int = 0
    kept: int = 0  # the newest checkpoint's
    seconds: float = 0.0  # of training, over all starts
    kept_seconds: float = 0.0  # of it until the newest checkpoint
    lost_tokens: int = 0  # of the steps after the checkpoint
    lost_seconds: float = 0.0


def progress(run_dir: str | None) -> Progress:
    """All zero where the run cannot be seen from here, or has not begun."""
    if not run_dir:
        return Progress()
    run = Path(run_dir)
    kept = max((_step(path) for path in run.glob("checkpoints/step-*")), default=0)
    step, seconds, at_kept, lost = 0, 0.0, 0.0, 0
    for line in _lines(run / "steps.jsonl"):
        if "loss" not in line:
            continue
        step, seconds = int(line["step"]), float(line["seconds"])
        if step <= kept:
            at_kept = seconds
        else:
            lost += int(line.get("tokens", 0))
    return Progress(step, kept, seconds, at_kept, lost, max(0.0, seconds - at_kept) if step > kept else 0.0)


def _step(path: Path) -> int:
    number = path.name.removeprefix("step-")
    return int(number) if number.isdigit() else 0


def _lines(path: Path) -> list[dict[str, float]]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return []
    return [json.loads(line) for line in text.split("\n")[:-1] if line.startswith("{")]
