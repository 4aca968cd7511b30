"""Pictures of trials as SVG: scores in the order of the trials' ends, and per setting scores by its values.

Each kind of dot is one path of a drawing, so 1,000 trials take some 10 kB. Scores far worse than most stand at the
edge.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dragoman.services.jobs.pages.curves import EDGE, Chart, Dots, Line, label_parts, round_bounds
from dragoman.services.jobs.pages.trials import Trial, is_lower
from dragoman.services.jobs.pages.words import number
from dragoman.services.jobs.service.curves import thinned
from dragoman.services.jobs.states import State

CATEGORIES = 8  # values of a setting that is no number, in a picture
LONGEST = 14  # characters of a value below a picture
FEW = 6  # numbers that are drawn as choices, if most of them come again
ORDERS = 8.0  # a range of numbers above 0 whose ends differ by this factor is drawn by orders of magnitude
FAR = 4.0  # scores further from the best than this many times the best three quarters stand at the edge


@dataclass(frozen=True)
class Axis:
    """The places of a setting's values: numbers from `low` to `high`, or each of `choices`."""

    low: float = 0.0
    high: float = 0.0
    log: bool = False
    choices: Sequence[str] = ()

    @classmethod
    def of(cls, values: Sequence[str | None]) -> "Axis":
        """Returns the axis for the values of all trials; None: a trial leaves the setting as it is."""
        numbers = [to_number(value) for value in values if value is not None]
        there = [value for value in numbers if value is not None]
        different = {value or "" for value in values}
        if len(there) < len(values) or len(different) <= min(FEW, len(values) // 2):
            return cls(choices=sorted(different, key=lambda one: (to_number(one) or 0.0, one)))
        low, high = min(there), max(there)
        return cls(low, high, low > 0 and high / low >= ORDERS)

    def place(self, value: str | None) -> float:
        """Returns the place of a value, 0 to EDGE."""
        if self.choices:
            return (self.choices.index(value or "") + 0.5) / len(self.choices) * EDGE
        found = to_number(value or "") or 0.0
        if self.log:
            return math.log(found / self.low) / math.log(self.high / self.low) * EDGE
        return (found - self.low) / ((self.high - self.low) or 1.0) * EDGE

    def ticks(self) -> list[str]:
        """Returns the words below the axis."""
        if self.choices:
            return [one if len(one) <= LONGEST else f"{one[: LONGEST - 1]}…" for one in map(_word, self.choices)]
        if self.log:
            return [number(self.low * (self.high / self.low) ** (part / 2)) for part in range(3)]
        return [number(self.low + (self.high - self.low) * part / 2) for part in range(3)]


def to_number(text: str) -> float | None:
    """Returns the finite number that a text is, else None."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _word(value: str) -> str:
    return value or "default"


def pictures(scored: Sequence[tuple[Trial, float]], keys: Sequence[str], measure: str, best: str) -> list[Chart]:
    """Returns one picture per setting that has at most CATEGORIES values or is a number; `best` is the best job."""
    if len(scored) < 2:
        return []
    low, high, ticks = _bounds([score for _, score in scored], measure)
    found = []
    for key in keys:
        axis = Axis.of([trial.settings.get(key) for trial, _ in scored])
        if len(axis.choices) > CATEGORIES:
            continue
        points = [(trial, axis.place(trial.settings.get(key)), _height(score, low, high)) for trial, score in scored]
        found.append(
            Chart(
                key=key,
                title=key,
                lines=[],
                ticks_y=[number(tick) for tick in ticks[::-1]],
                ticks_x=axis.ticks(),
                low=low,
                high=high,
                first=axis.low,
                end=axis.high,
                caption=f"{measure} of {len(scored)} trials by {key}, {_range(axis)}",
                dots=_dots(points, best),
                centred=bool(axis.choices),
            )
        )
    return found


def over_time(scored: Sequence[tuple[Trial, float]], measure: str, best: str) -> Chart | None:
    """Returns the picture of all scores in the order of their ends, with the best one so far as a line."""
    if len(scored) < 2:
        return None
    ordered = sorted(scored, key=lambda pair: pair[0].changed)
    low, high, ticks = _bounds([score for _, score in ordered], measure)
    wide = len(ordered) - 1
    parts = label_parts(wide)
    better = min if is_lower(measure) else max
    so_far, line = ordered[0][1], []
    for place, (_, score) in enumerate(ordered):
        line.append((place, so_far))
        so_far = better(so_far, score)
        line.append((place, so_far))
    drawn = " ".join(f"{x / wide * EDGE:.1f},{_height(y, low, high):.1f}" for x, y in _corners(line))
    points = [(trial, place / wide * EDGE, _height(score, low, high)) for place, (trial, score) in enumerate(ordered)]
    return Chart(
        key=measure,
        title="In the order of their ends; best so far",
        lines=[Line("best so far", drawn, number(so_far), 0)],
        ticks_y=[number(tick) for tick in ticks[::-1]],
        ticks_x=[f"{1 + round(wide * part / parts):,}" for part in range(parts + 1)],
        low=low,
        high=high,
        first=1.0,
        end=float(len(ordered)),
        caption=f"{measure} of {len(ordered)} trials in the order of their ends; the best is {number(so_far)}",
        dots=_dots(points, best),
    )


def _corners(line: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Returns the points at which the line changes, and its ends."""
    kept = [
        point
        for place, point in enumerate(line)
        if place in (0, len(line) - 1) or not line[place - 1][1] == point[1] == line[place + 1][1]
    ]
    return thinned(kept)


def _dots(points: Sequence[tuple[Trial, float, float]], best: str) -> list[Dots]:
    """Returns the dots of trials that did not succeed, of those that did, and of the best one on top."""
    kinds: Mapping[str, list[tuple[float, float]]] = {"early": [], "whole": [], "peak": []}
    for trial, x, y in points:
        kinds["peak" if trial.job == best else "whole" if trial.state == State.SUCCEEDED else "early"].append((x, y))
    return [Dots.of(kind, places) for kind, places in kinds.items() if places]


def _bounds(scores: Sequence[float], measure: str) -> tuple[float, float, list[float]]:
    """Returns round bounds for the scores, without those far worse than most, and ticks."""
    sign = 1.0 if is_lower(measure) else -1.0
    ordered = sorted(sign * score for score in scores)
    best, most = ordered[0], ordered[(3 * len(ordered) - 1) // 4]
    worst = min(ordered[-1], best + FAR * (most - best)) if most > best else ordered[-1]
    return round_bounds(min(sign * best, sign * worst), max(sign * best, sign * worst))


def _height(score: float, low: float, high: float) -> float:
    return (high - min(max(score, low), high)) / ((high - low) or 1.0) * EDGE


def _range(axis: Axis) -> str:
    if axis.choices:
        return ", ".join(map(_word, axis.choices))
    return f"{number(axis.low)} to {number(axis.high)}{' by orders of magnitude' if axis.log else ''}"
