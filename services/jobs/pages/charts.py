"""Draws learning curves as SVG on the server, so that they need no script; at most POINTS points per line.

The drawing fills its box at any size (`preserveAspectRatio="none"`); labels are text beside it, so they stay
readable on a phone. Nothing has an inline style: the content security policy forbids it.
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman.model.runs import paths
from dragoman.model.runs.lines import JournalReader
from dragoman.model.untrusted import finite
from dragoman.services.jobs.pages.formats import number, short
from dragoman.services.jobs.service.curves import POINTS, run_of, thinned

KEPT = 64  # journals kept in memory
EDGE = 1000.0  # the drawing's own width and height
CURVES = {  # key of steps.jsonl -> title
    "loss": "Training loss, nats per token",
    "valid_loss": "Validation loss, nats per token",
    "valid_bleu": "Validation BLEU",
    "lr": "Learning rate",
    "norm": "Gradient norm",
}
Points = Sequence[tuple[float, float]]


@dataclass
class Journal:
    """The part of a run's steps.jsonl read so far, thinned."""

    notes: list[str] = field(default_factory=list)  # the journal's faults
    last: dict[str, float] = field(default_factory=dict)
    points: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    every: dict[str, int] = field(default_factory=dict)  # key -> n: one of n points is kept
    seen: dict[str, int] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)  # since the last kept point

    def add(self, line: Mapping[str, Any]) -> None:
        """Adds a line of the journal; a repeated step (after a resume) replaces the later points."""
        step = float(line["step"])
        for key in (*CURVES, "seconds"):
            value = finite(line.get(key))
            if value is None:
                continue
            self.last[key] = value
            kept = self.points.setdefault(key, [])
            while kept and kept[-1][0] >= step:
                kept.pop()
            self.seen[key] = self.seen.get(key, 0) + 1
            if key == "loss":
                self.losses.append(value)
            if self.seen[key] % self.every.setdefault(key, 1) == 0:
                if key == "loss":  # the loss of one step is noisy: take the mean since the last point
                    value, self.losses = sum(self.losses) / len(self.losses), []
                kept.append((step, value))
            if len(kept) > 2 * POINTS:
                self.points[key] = list(mean_pairs(kept) if key == "loss" else kept[::2])
                self.every[key] *= 2
        self.last["step"] = step


class Journals:
    """Reads the journals; each time only what was added."""

    def __init__(self) -> None:
        self._known: OrderedDict[Path, tuple[JournalReader, Journal]] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, job: Any) -> Journal:
        """Returns the journal of a job's run; an empty one if it cannot be seen from here, or no training has begun."""
        run = run_of(job)
        if run is None:
            return Journal()
        path = run / paths.STEPS
        with self._lock:
            if not path.exists():
                return Journal()
            reader, journal = self._known.pop(path, (JournalReader(path), Journal()))
            if reader.is_replaced():
                reader, journal = JournalReader(path), Journal()
            for line in reader.lines():
                journal.add(line)
            journal.notes = reader.notes
            self._known[path] = (reader, journal)
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
            return journal


@dataclass(frozen=True)
class Chart:
    """The values that the template draws."""

    title: str
    points: str  # of the SVG's line
    last: str  # value
    ticks_y: list[str]  # from top to bottom, evenly spaced
    ticks_x: list[str]
    low: float
    high: float
    first: float
    end: float
    caption: str


def charts(journal: Journal) -> list[Chart]:
    """Returns a chart for each of CURVES of which the run has at least two points."""
    curves = {title: journal.points.get(key, []) for key, title in CURVES.items()}
    return [_chart(title, points) for title, points in curves.items() if len(points) > 1]


def _chart(title: str, points: Points) -> Chart:
    """Draws a curve over steps."""
    low, high, ticks = round_bounds(min(y for _, y in points), max(y for _, y in points))
    first, end = points[0][0], points[-1][0]
    wide = end - first
    parts = next(parts for parts in (4, 3, 2, 1) if wide % parts == 0) if wide < 12 else 4  # only whole steps
    labels = [_step(first + wide * part / parts) for part in range(parts + 1)]
    drawn = (f"{(x - first) / wide * EDGE:.1f},{(high - y) / (high - low) * EDGE:.1f}" for x, y in thinned(points))
    last = number(points[-1][1])
    return Chart(
        title=title,
        points=" ".join(drawn),
        last=last,
        ticks_y=[number(tick) for tick in ticks[::-1]],
        ticks_x=labels,
        low=low,
        high=high,
        first=first,
        end=end,
        caption=f"{title}, steps {labels[0]} to {labels[-1]}: {number(points[0][1])} to {last}",
    )


def _step(step: float) -> str:
    return short(step) if step >= 10_000 else f"{round(step):,}"


def mean_pairs(points: Points) -> Points:
    """Returns the mean of every two neighbours, at the second one's step."""
    pairs = zip(points[::2], points[1::2], strict=False)
    return [*((step, (before + value) / 2) for (_, before), (step, value) in pairs), *points[len(points) // 2 * 2 :]]


def round_bounds(low: float, high: float) -> tuple[float, float, list[float]]:
    """Returns round bounds around the values, and evenly spaced ticks."""
    if high <= low:
        low, high = (low - 0.5, high + 0.5) if low else (0.0, 1.0)
    raw = (high - low) / 4
    power = 10 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    bottom, top = math.floor(low / step) * step, math.ceil(high / step) * step
    count = round((top - bottom) / step)
    ticks = [bottom + index * step for index in range(count + 1)]
    return bottom, top, [0.0 if abs(tick) < step / 1e6 else tick for tick in ticks]
