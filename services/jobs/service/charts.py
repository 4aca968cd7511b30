"""Draws learning curves as SVG on the server, so that they need no script; at most POINTS points per line.

The drawing fills its box at any size (`preserveAspectRatio="none"`); labels are text beside it, so they stay
readable on a phone. Nothing has an inline style: the content security policy forbids it.
"""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman.model.runs import paths
from dragoman.model.runs.lines import JournalReader
from dragoman.model.untrusted import finite
from dragoman.services.jobs.service.curves import POINTS, run_of, thinned
from dragoman.services.jobs.service.words import hour, number, short

KEPT = 64  # journals kept in memory
EDGE = 1000.0  # the drawing's own width and height
BRIEF = 600.0  # seconds: times below shorter drawings have their seconds
CURVES = {  # key of steps.jsonl -> title
    "loss": "Training loss, nats per token",
    "valid_loss": "Validation loss, nats per token",
    "valid_bleu": "Validation BLEU",
    "lr": "Learning rate",
    "norm": "Gradient norm",
}
Points = Sequence[tuple[float, float]]
Curves = Mapping[str, Sequence[Points]]  # name -> the pieces of a curve between the times without a measurement


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
    """Reads the journals; each look reads only what was added."""

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
class Line:
    """A curve of a chart: the SVG's points of each of its pieces."""

    name: str
    pieces: list[str]
    last: str
    colour: int  # one of the style sheet's eight


@dataclass(frozen=True)
class Chart:
    """The values that the template draws."""

    key: str
    title: str
    lines: list[Line]
    ticks_y: list[str]  # from top to bottom, evenly spaced
    ticks_x: list[str]
    low: float
    high: float
    first: float
    end: float
    caption: str
    clock: int | None = None  # the horizontal axis is time: seconds that local time is ahead of UTC


def charts(journals: Mapping[str, Journal]) -> list[Chart]:
    """Returns a chart for each of CURVES of which any run has at least two points."""
    drawn = []
    for key, title in CURVES.items():
        lines = {name: [points] for name, journal in journals.items() if (points := journal.points.get(key))}
        if any(len(points) > 1 for (points,) in lines.values()):
            drawn.append(_chart(key, title, lines))
    return drawn


def _chart(key: str, title: str, lines: Curves, timed: bool = False) -> Chart:
    """Draws curves over steps or, from zero on, over time in seconds since 1970."""
    points = [point for pieces in lines.values() for piece in pieces for point in piece]
    low, high, ticks = round_bounds(min(y for _, y in points) if not timed else 0.0, max(y for _, y in points))
    first, end = min(x for x, _ in points), max(x for x, _ in points)
    drawn = [
        Line(name, [_place(piece, first, end, low, high) for piece in pieces], number(pieces[-1][-1][1]), index % 8)
        for index, (name, pieces) in enumerate(lines.items())
    ]
    said = "; ".join(f"{name}: {number(line[0][0][1])} to {number(line[-1][-1][1])}" for name, line in lines.items())
    parts = label_parts(end - first, timed)
    places = [first + (end - first) * part / parts for part in range(parts + 1)]
    labels = [hour(place) if timed else _step(place) for place in places]
    return Chart(
        key=key,
        title=title,
        lines=drawn,
        ticks_y=[number(tick) for tick in ticks[::-1]],
        ticks_x=[label[:5] for label in labels] if timed and end - first > BRIEF else labels,  # without seconds
        low=low,
        high=high,
        first=first,
        end=end,
        caption=f"{title}, {'' if timed else 'steps '}{labels[0]} to {labels[-1]}: {said}",
        clock=time.localtime(end).tm_gmtoff if timed else None,
    )


def label_parts(wide: float, timed: bool = False) -> int:
    """Returns how many parts the labels below a drawing divide it into: few long labels, and only whole steps."""
    if timed:
        return 4 if wide > BRIEF else 2
    return next(parts for parts in (4, 3, 2, 1) if wide % parts == 0) if wide < 12 else 4


def _step(place: float) -> str:
    return short(place) if place >= 10_000 else f"{round(place):,}"


def mean_pairs(points: Points) -> Points:
    """Returns the mean of every two neighbours, at the second one's place."""
    pairs = zip(points[::2], points[1::2], strict=False)
    return [*((step, (before + value) / 2) for (_, before), (step, value) in pairs), *points[len(points) // 2 * 2 :]]


def _place(points: Points, first: float, end: float, low: float, high: float) -> str:
    wide, tall = (end - first) or 1.0, (high - low) or 1.0
    drawn = [f"{(x - first) / wide * EDGE:.1f},{(high - y) / tall * EDGE:.1f}" for x, y in thinned(points)]
    return " ".join(drawn if len(drawn) > 1 else drawn * 2)  # a lone point is a dot


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


@dataclass(frozen=True)
class Segment:
    """A segment of a bar, 0 to EDGE. `look`: an outcome, or one of the style sheet's eight colours."""

    start: float
    width: float
    look: str | int
    label: str = ""
