"""Estimates what a running training would lose if it made room now, from its run's folder at little cost."""

import time
from dataclasses import dataclass
from pathlib import Path

from services.untrusted import open_regular, parse_line

TAIL = 65_536  # bytes read at the end of the journal


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
    kept = max((_changed(path) + offset for path in run.glob("checkpoints/step-*")), default=0.0)
    written, trained = _changed(run / "steps.jsonl") + offset, _trained(run / "steps.jsonl")
    if trained is None or trained <= before or written < began:
        return Footprint(None, kept, preempted)
    return Footprint(min(now, max(began, written - (trained - before))), kept, preempted)


def _trained(journal: Path) -> float | None:
    """Returns the seconds of training in the last whole line; None if there is none."""
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
