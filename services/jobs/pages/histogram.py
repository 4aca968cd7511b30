"""Draws counts by length as bars in SVG on the server, as `curves` draws lines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dragoman.services.jobs.pages.curves import EDGE

TOPS = (5, 10, 20, 30, 40, 50, 60, 80, 100)  # percent at the top of the drawing
GAP = 0.2  # of a bucket's width that stays free


@dataclass(frozen=True)
class Bar:
    """A bar of the drawing, 0 to EDGE from the left and from the top."""

    left: float
    top: float
    width: float
    height: float
    colour: int
    label: str


@dataclass(frozen=True)
class Histogram:
    """The values that the template draws."""

    bars: list[Bar]
    ticks_y: list[str]  # from top to bottom
    buckets: list[str]
    sides: list[str]
    caption: str


def histogram(bounds: Sequence[int], sides: Mapping[str, Sequence[int]]) -> Histogram | None:
    """Returns the drawing of side -> records in each bucket; None if there are none.

    `bounds` are the largest lengths of all buckets but the last, which is open.
    """
    totals = {side: sum(counts) for side, counts in sides.items()}
    used = max((place + 1 for counts in sides.values() for place, count in enumerate(counts) if count > 0), default=0)
    used = min(used, len(bounds) + 1)
    if not used or not all(totals.values()):
        return None
    names = [f"{bound}" for bound in bounds[:used]] + ([f">{bounds[-1]}"] if used > len(bounds) else [])
    shares = {side: [100 * count / totals[side] for count in counts[:used]] for side, counts in sides.items()}
    top = next(top for top in TOPS if top >= max(map(max, shares.values())) or top == TOPS[-1])
    wide = EDGE / used
    each = wide * (1 - GAP) / len(sides)
    bars = [
        Bar(
            left=round(place * wide + wide * GAP / 2 + number * each, 1),
            top=round(EDGE - share / top * EDGE, 1),
            width=round(each, 1),
            height=round(share / top * EDGE, 1),
            colour=number,
            label=f"{side}, up to {names[place]}: {sides[side][place]:,} ({share:.1f} %)",
        )
        for number, side in enumerate(sides)
        for place, share in enumerate(shares[side])
        if share > 0
    ]
    told = "; ".join(f"{side}: most have up to {names[values.index(max(values))]}" for side, values in shares.items())
    caption = f"Records by length in tokens. {told}"
    return Histogram(bars, [f"{top} %", f"{top / 2:g} %", "0"], names, list(sides), caption)
