"""Validation loss against its cost: target tokens, and minutes."""

from collections.abc import Mapping

from dragoman.model.durations import duration
from dragoman.pipelines.comparison.pictures.style import colours, markers, thousands
from dragoman.pipelines.comparison.speed import TrainingRecord
from dragoman.pipelines.comparison.table import amount
from dragoman.pipelines.tracking.plots import Figure, clean, empty, panels


def draw(records: Mapping[str, TrainingRecord], labels: list[str]) -> Figure:
    """Draws the same curves by token and by minute. `labels`: of the whole comparison."""
    figure, axes = panels(1, 2, (10.0, 4.2), "Learning")
    colour, mark = colours(labels), markers(labels)
    for axis, unit, place in zip(axes, ("million target tokens", "minutes of training"), (0, 1), strict=True):
        for label, record in records.items():
            points = [(point[place] / (1e6 if place == 0 else 1.0), point[2]) for point in record.validation]
            if points:
                xs, ys = zip(*points, strict=True)
                axis.plot(xs, ys, color=colour[label], marker=mark[label], markersize=3.5, linewidth=1.5, label=label)
        axis.set_xlabel(unit, fontsize=9)
        axis.set_ylabel("validation loss, nats per token", fontsize=9)
        clean(axis)
        if not axis.lines:
            empty(axis, "no run's journal lies beside these bundles")
    if axes[0].lines:
        if max(record.minutes for record in records.values()) > 20:
            thousands(axes[1], "x")
        axes[0].legend(frameon=False, fontsize=8)
    return figure


def caption(records: Mapping[str, TrainingRecord]) -> str:
    """Describes the picture."""
    last = {label: record for label, record in records.items() if record.validation}
    return "; ".join(
        f"{label} ends at {record.validation[-1][2]:.2f} nats per token after {amount(record.tokens)} tokens "
        f"in {duration(60 * record.minutes)}"
        for label, record in last.items()
    )
