"""Shows the run's progress on the driver's terminal, from its journal: a live line, or log lines at intervals."""

import json
import logging
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dragoman.model.durations import duration
from dragoman.model.repeated import repeated
from dragoman.model.runs.lines import JournalReader
from dragoman.model.runs.paths import PRECISION, STEPS

logger = logging.getLogger(__name__)
LOOK_SECONDS = 0.5  # between two looks at the journal
LINE_SECONDS = 10.0  # between two lines without a terminal
SLOW_STEPS = 3  # the first of a start: they prepare buffers and kernels and say nothing about the rest
SETTLED = 5  # steps after those before a rate is shown
SILENT = 5.0  # seconds without a step before the wait is said
BEFORE = (
    "before the first step: the workers start and prepare their kernels"  # with its time shorter than 80 characters
)


@contextmanager
def show_progress(
    run: Path, max_steps: int, unit: str = "target tokens", plan: str = "", timed: bool = False
) -> Iterator[None]:
    """Follows RUN/steps.jsonl within the block and reports the chosen precision.

    Args:
        run: the run's folder.
        max_steps: the last step, unless the journal names an earlier one.
        unit: the unit of the steps' `tokens`.
        plan: what is trained, with room for its `{steps}`; said once, with its time, when the rate is known.
        timed: the last step is not known before the journal names it.
    """
    follower = _Follower(run / STEPS, max_steps, unit, plan, timed)
    with repeated(follower.read, LOOK_SECONDS, "progress"):
        yield


class _Follower:
    def __init__(self, path: Path, max_steps: int, unit: str, plan: str, timed: bool = False) -> None:
        self.path, self.max_steps, self.unit, self._plan, self._timed = path, max_steps, unit, plan, timed
        self._decision: Path | None = path.with_name(PRECISION)  # None: it was reported
        self._terminal = sys.stderr.isatty() and logger.isEnabledFor(logging.INFO)  # a quiet caller has no live line
        self._reader = JournalReader(path, most=None)
        self._said = 0  # the last step of an evaluation
        self._notes: set[str] = set()  # the lines said already
        for line in self._reader.lines():
            self._said = max(self._said, line["step"])
            self._notes.add(line.get("note", ""))
            self._heed(line)
        self._recent: list[dict[str, Any]] = []  # of this start, without its slow steps
        self._since: list[dict[str, Any]] = []  # the last line
        self._first = 0  # step of this start
        self._last_line, self._last_step = 0.0, 0
        self._begun = time.monotonic()
        self._silent_until = self._begun + SILENT  # inf: a step was seen, or the wait was said

    def read(self, last: bool) -> None:
        """Reports what is new; after the last time the terminal has no live line."""
        self._read()
        if last and self._terminal:
            sys.stderr.write("\r\033[K")

    def _read(self) -> None:
        if self._decision and self._decision.is_file():
            self._say("trains in {precision}: {because}".format(**json.loads(self._decision.read_text("utf-8"))))
            self._decision = None
        if self._reader.is_replaced():  # a resumed run cut the journal back to its checkpoint
            self._reader = JournalReader(self.path, most=None)
            self._recent, self._since, self._first = [], [], 0
        for line in self._reader.lines():
            self._silent_until = math.inf
            self._heed(line)
            if "note" in line:
                if line["note"] not in self._notes:
                    self._say(line["note"])
                self._notes.add(line["note"])
            elif "valid_loss" not in line and "epoch_loss" not in line:
                self._first = self._first or line["step"]
                self._since.append(line)
                slow = line["step"] < self._first + SLOW_STEPS
                self._recent = [line] if slow else [*self._recent[-49:], line]
            elif line["step"] > self._said:
                self._said = line["step"]
                self._say(_evaluation(line) if "valid_loss" in line else _epoch(line))
        if self._plan and not self._timed and self._recent and (seconds := _seconds_a_step(self._recent)):
            left = self.max_steps - self._recent[-1]["step"]
            self._say(f"{self._plan.format(steps=self.max_steps)}, about {duration(left * seconds)}")
            self._plan = ""
        now = time.monotonic()
        if now >= self._silent_until:
            waited = f" ({duration(now - self._begun)})" if self._terminal else ""
            self._say(f"{BEFORE}{waited}", live=self._terminal)
            self._silent_until = now if self._terminal else math.inf
        step = self._recent[-1]["step"] if self._recent else self._last_step
        if step != self._last_step and (self._terminal or now - self._last_line >= LINE_SECONDS):
            self._last_line, self._last_step = now, step
            lines_shown = self._recent if self._terminal else self._since
            last = 0 if self._timed else self.max_steps
            self._say(_training(lines_shown, self._recent, last, self.unit), live=self._terminal)
            self._since = []

    def _heed(self, line: dict[str, Any]) -> None:
        """Takes the last step from a line that names it."""
        if "last_step" in line:
            self.max_steps, self._timed = line["last_step"], False

    def _say(self, text: str, live: bool = False) -> None:
        if live:
            sys.stderr.write(f"\r\033[K{text}")
            sys.stderr.flush()
            return
        if self._terminal:
            sys.stderr.write("\r\033[K")
        logger.info(text)


def _training(lines: list[dict[str, Any]], recent: list[dict[str, Any]], max_steps: int, unit: str) -> str:
    """Returns the mean loss per token of the steps `lines`, and the rate of the `recent` ones.

    `max_steps`: 0 while it is not known."""
    last = recent[-1]
    parts = [f"step {last['step']:,}" + (f"/{max_steps:,}" if max_steps else "")]
    finite = [line for line in lines if line["loss"] is not None]
    if tokens := sum(line["tokens"] for line in finite):
        parts.append(f"loss {sum(line['loss'] * line['tokens'] for line in finite) / tokens:.3f}")
    if a_step := _seconds_a_step(recent):
        tokens = sum(line["tokens"] for line in recent[1:]) / (last["step"] - recent[0]["step"])
        parts.append(f"{tokens / a_step:,.0f} {unit}/s")
        if max_steps:
            parts.append(f"{duration((max_steps - last['step']) * a_step)} left")
    return " | ".join(parts)


def _seconds_a_step(recent: list[dict[str, Any]]) -> float:
    """Returns the mean of the `recent` steps; 0 before there are enough."""
    steps = recent[-1]["step"] - recent[0]["step"]
    return (recent[-1]["seconds"] - recent[0]["seconds"]) / steps if steps >= SETTLED else 0.0


def _evaluation(line: dict[str, Any]) -> str:
    bleu = f" | BLEU {line['valid_bleu']:.1f}" if "valid_bleu" in line else ""
    loss, perplexity = (float("nan") if line[key] is None else line[key] for key in ("valid_loss", "valid_perplexity"))
    return (
        f"step {line['step']:,} | validation loss {loss:.3f} | perplexity {perplexity:.2f}{bleu} | "
        f"{duration(line['seconds'])} trained"
    )


def _epoch(line: dict[str, Any]) -> str:
    return f"epoch {line['epoch']} | loss {line['epoch_loss']:.4f} | {duration(line['seconds'])} trained"
