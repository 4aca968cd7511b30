"""The gradient's norm against the distance in time: vanishing, exploding, preserved."""

from collections.abc import Mapping, Sequence

from dragoman.pipelines.comparison.gradients import GradientCurve
from dragoman.pipelines.comparison.pictures.style import colours
from dragoman.pipelines.evaluation.word_vectors.plots import PALETTE
from dragoman.pipelines.tracking.plots import Axes, Figure, clean, empty, panels

STYLES = ("-", "--", "-.", ":")


def draw(fresh: Sequence[GradientCurve], trained: Sequence[GradientCurve], labels: Sequence[str]) -> Figure:
    """Draws single fresh layers on the left, the trained decoders on the right; `labels`: the compared networks'."""
    figure, (left, right) = panels(1, 2, (11.0, 4.6), "Norm of d loss at t by d input at t - k")
    by_label = colours(labels)
    lines(left, fresh, {one.label: PALETTE[place % len(PALETTE)] for place, one in enumerate(fresh)})
    left.set_title("one layer, freshly initialised", fontsize=10, loc="left")
    lines(right, trained, by_label)
    right.set_title("trained decoders, held-out sentences", fontsize=10, loc="left")
    return figure


def lines(axis: Axes, curves: Sequence[GradientCurve], colour: Mapping[str, str]) -> None:
    """Plots norms on a logarithmic axis, which cannot show a norm of 0."""
    for number, one in enumerate(curves):
        points = [(k, norm) for k, norm in zip(one.distances, one.norms, strict=True) if norm > 0]
        if points:
            axis.plot(
                *zip(*points, strict=True), color=colour[one.label], label=one.label, linewidth=1.6,
                linestyle=STYLES[number % len(STYLES)],
            )  # fmt: skip
    axis.set_xlabel("k, steps back", fontsize=9)
    axis.set_ylabel("gradient norm", fontsize=9)
    clean(axis)
    if axis.lines:
        axis.set_yscale("log")
        axis.legend(frameon=False, fontsize=8)
    else:
        empty(axis, "not measured")


def caption(curves: Sequence[GradientCurve]) -> str:
    """Describes how much of the nearest distance's norm remains at the farthest."""
    parts = []
    for one in curves:
        if len(one.norms) > 1 and one.norms[0] > 0:
            parts.append(f"{one.label} {one.norms[-1] / one.norms[0]:.2g} at k = {one.distances[-1]}")
    return "; ".join(parts)
