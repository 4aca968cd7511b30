"""Measures how long a run needs to stop in order: RUN/pace.json, for whoever kills what does not stop.

A stop waits for the current step, with an evaluation if one is due, and until its checkpoint is written and sent.
"""

import json
import time
from pathlib import Path

from dragoman.model.files import atomic_write
from dragoman.model.runs.paths import PACE

SPARE = 5.0  # seconds for what is not measured: processes that end, a record that is closed


class Pace:
    """The measurements of one start, on the first rank."""

    def __init__(self, run: Path) -> None:
        self._path = run / PACE
        self._step = self._checkpoint = 0.0
        self._last = time.monotonic()

    def step(self) -> None:
        """Records that another step is done, with everything in between."""
        now = time.monotonic()
        self._step, self._last = max(self._step, now - self._last), now

    def checkpoint(self, seconds: float) -> None:
        """Records how long a checkpoint took until it was stored for good."""
        self._checkpoint = max(self._checkpoint, seconds)
        values = {"step_seconds": round(self._step, 3), "checkpoint_seconds": round(self._checkpoint, 3)}
        stop = round(2 * (self._step + self._checkpoint) + SPARE, 1)  # double, for a busy machine
        atomic_write(self._path, json.dumps({**values, "stop_seconds": stop}) + "\n", durable=False)
