"""What a running training would lose if it made room now, read from its run's folder at little cost."""

import time
from dataclasses import dataclass
from pathlib import Path

from model.untrusted import open_regular, parse_line

TAIL = 65_536  # bytes of the journal's end that are read


@dataclass(frozen=True)
class Footprint:
    """Of the attempt that runs. Times are seconds since 1970, by the service's clock."""

    stepped: float | None = None  # when it began its first step; None: it has ended none yet, or nobody can see
    kept: float = 0.0  # when the run's newest checkpoint was written
    preempted: int = 0  # attempts before it that made room


def footprint(run_dir: str | None, began: float, before: float, now: float, preempted: int = 0) -> Footprint:
    """Return the footprint of an attempt.

    Args:
        run_dir: of the training; None: it trains nothing.
        began: when the attempt was started.
        before: seconds that the run had trained when the attempt before it ended, as far as a checkpoint kept them.
    """
    if not run_dir:
        return Footprint(preempted=preempted)
    run, offset = Path(run_dir), now - time.time()
    kept = max((_changed(path) + offset for path in run.glob("checkpoints/step-*")), default=0.0)
    written, trained = _changed(run / "steps.jsonl") + offset, _trained(run / "steps.jsonl")
    if trained is None or trained <= before or written < began:
        return Footprint(None, kept, preempted)
    return Footprint(min(now, max(began, written - (trained - before))), kept, preempted)


def _trained(journal: Path) -> float | None:
    """The seconds of training that the last whole line tells; None where none does."""
    try:
        with open_regular(journal) as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return None
    for line in reversed(lines):
        found = parse_line(line)  # the first one is cut, and others may be damaged
        if found is not None and "seconds" in found:
            return float(found["seconds"])
    return None


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
