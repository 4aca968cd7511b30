"""Faults on purpose at one training of this machine's service: how long each takes to recover.

    python -m bench drill [FAULT...] [paths.root=HOME] [jobs.KEY=VALUE]

The figure is the slowest recovery in seconds, against the median one; docs/faults.md has the faults.
"""

import json
import statistics
import sys
from collections.abc import Sequence

from bench.result import Result


def run(quick: bool, args: Sequence[str]) -> Result:
    """The slowest recovery, seconds. Exits with 1 if the training's result differs from an undisturbed one."""
    from bench.drill.entry import REPORT, main

    if code := main(args):
        sys.exit(code)
    rows = json.loads(REPORT.read_text(encoding="utf-8"))["rows"]
    took = [row["recovered"] for row in rows if row["recovered"] is not None] or [0.0]
    return Result("drill", max(took), statistics.median(took), "s until the slowest fault is recovered", "baseline")
