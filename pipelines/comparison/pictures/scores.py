"""Scores of every network, with their resampling intervals."""

from collections.abc import Mapping, Sequence

from dragoman.pipelines.comparison.intervals import Interval
from dragoman.pipelines.comparison.measures import Measures
from dragoman.pipelines.comparison.pictures.style import colours
from dragoman.pipelines.tracking.plots import Figure, clean, panels


def draw(
    labels: Sequence[str],
    scores: Mapping[str, Sequence[Interval]],
    digits: int = 1,
    title: str = "Quality, with 95 % intervals",
) -> Figure:
    """Draws a panel for each unit of `scores`, with one row per network in the order of the comparison."""
    figure, axes = panels(1, len(scores), (10.0, 1.5 + 0.36 * len(labels)), title)
    for axis, (unit, found) in zip(axes, scores.items(), strict=True):
        for place, (one, colour) in enumerate(zip(found, colours(labels).values(), strict=True)):
            axis.plot([one.low, one.high], [place, place], color=colour, linewidth=2.2, solid_capstyle="butt")
            axis.plot(one.score, place, "o", color=colour, markersize=6)
            axis.annotate(
                f"{one.score:.{digits}f}",
                (one.score, place),
                (0, 6),
                textcoords="offset points",
                ha="center",
                fontsize=8,
            )
        axis.set_yticks(range(len(labels)), labels if axis is axes[0] else [""] * len(labels))
        axis.set_ylim(len(labels) - 0.5, -0.6)
        axis.set_xlabel(unit, fontsize=9)
        clean(axis)
        axis.grid(axis="x", color="#e6e8eb", linewidth=0.8)
        axis.grid(axis="y", visible=False)
        axis.margins(x=0.08)
    return figure


def caption(every: Sequence[Measures]) -> str:
    """Describes the picture."""
    return "; ".join(f"{one.label} BLEU {format_interval(one.bleu)}, chrF {format_interval(one.chrf)}" for one in every)


def format_interval(one: Interval) -> str:
    """`31.2 (30.1 to 32.3)`."""
    return f"{one.score:.1f} ({one.low:.1f} to {one.high:.1f})"
