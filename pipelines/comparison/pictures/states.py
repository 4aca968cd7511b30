"""Sentences as points: the states that each network keeps of them, by PCA (figure 2 of Sutskever et al. 2014)."""

from collections.abc import Mapping, Sequence

from dragoman.model.word_vectors.labels import bare, place_labels, settle
from dragoman.pipelines.comparison.states import StateMap
from dragoman.pipelines.evaluation.word_vectors.plots import PALETTE
from dragoman.pipelines.tracking.plots import Figure, panels

COLUMNS = 2


def draw(every: Mapping[str, StateMap], sentences: Sequence[str], meanings: Sequence[int]) -> Figure:
    """Draws one panel per network, one numbered point per sentence; equal meanings share a colour."""
    columns = min(COLUMNS, len(every))
    rows = -(-len(every) // columns)
    a_column = -(-len(sentences) // columns)
    below = 0.3 + 0.21 * a_column
    height = 0.7 + 3.2 * rows + below
    figure, axes = panels(rows + 1, columns, (5.0 * columns, height), "Sentence states in their plane of most variance")
    keys = axes[rows * columns :]
    grid = keys[0].get_gridspec()
    if grid is not None:
        grid.set_height_ratios([3.2] * rows + [below])
    colours = [PALETTE[meaning % len(PALETTE)] for meaning in meanings]
    for axis, (label, found) in zip(axes, every.items(), strict=False):
        axis.scatter(found.places[:, 0], found.places[:, 1], s=18, c=colours)
        axis.set_title(f"{label}: {found.kind}", fontsize=9, loc="left")
        alike = "" if found.alike is None else f"; nearest means the same: {found.alike:.0%}"
        axis.set_xlabel(f"{found.explained:.0%} of the variance{alike}", fontsize=8)
        bare(axis)
        axis.margins(0.12)
    for axis in [*axes[len(every) : rows * columns], *keys]:
        axis.set_axis_off()
    for place, (sentence, colour) in enumerate(zip(sentences, colours, strict=True)):
        key = keys[place // a_column]
        height_of = 1.0 - (place % a_column + 0.5) / a_column
        text = key.text(0.0, height_of, f"{place + 1}  {sentence}", color=colour, fontsize=8, va="center")
        text.set_transform(key.transAxes)
        text.set_in_layout(False)
    settle(figure)
    for axis, found in zip(axes, every.values(), strict=False):
        place_labels(axis, found.places, [str(number) for number in range(1, len(sentences) + 1)], colours, 8.0)
    return figure


def caption(every: Mapping[str, StateMap]) -> str:
    """Describes the measurements."""
    parts = []
    for label, found in every.items():
        alike = "" if found.alike is None else f", {found.alike:.0%} of the sentences next to one that means the same"
        parts.append(f"{label} ({found.kind}): {found.explained:.0%} of the variance in the plane{alike}")
    return "; ".join(parts) + "."
