"""Estimates what a running training would lose if it made room now, from its run's folder at little cost."""

import time
from dataclasses import dataclass
from pathlib import Path

from dragoman.model.runs import checkpoints, paths
from dragoman.model.runs.lines import trained_seconds


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
