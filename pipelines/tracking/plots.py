"""Plots of a run and of a data set, for MLflow's artifacts. Needs no display; each call makes its own figure."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:  # names for annotations: matplotlib loads when something is drawn
    Axes = Figure = Any

Points = Sequence[tuple[int, float]]  # (step, value), steps ascending

BLUE, ORANGE, GREEN, GREY = "#2463a8", "#d9730d", "#2f8f5b", "#8a8f98"
SMOOTHED_FROM = 60  # points from which a noisy curve gets a running mean


def curves(
    metrics: Mapping[str, Points], title: str, unit: str = "target token", loss: str = "nats per {}"
) -> Figure | None:
    """Plots loss, BLEU, perplexity, learning rate and speed over the steps: one panel per measured metric.

    None if there is none. `unit`: what the network predicts, and the `loss` is of.
    """
    translates = unit == "target token"
    key, label = ("loss", "training, smoothed labels") if translates else ("nll", "training")

    def losses(axis: Axes) -> None:
        noisy(axis, metrics.get(key, ()), BLUE, label)
        line(axis, metrics.get("valid_loss", ()), ORANGE, "validation", marker="o")
        finish(axis, "Loss", loss.format(unit))

    def quality(axis: Axes) -> None:
        points = metrics.get(measure, ())
        line(axis, points, GREEN, "validation", marker="o")
        if translates:
            _mark_best(axis, points)
        finish(axis, *(("BLEU", "sacreBLEU") if translates else ("Perplexity", f"of a {unit}")))

    measure = {"target token": "valid_bleu", "token": "valid_perplexity"}.get(unit, "")
    drawn = {(key, "valid_loss"): losses, (measure,): quality, **pace(f"{unit}s per second", metrics)}
    return draw_panels(metrics, drawn, title)


Panel = Callable[[Axes], None]


def draw_panels(metrics: Mapping[str, Points], panels_of: Mapping[tuple[str, ...], Panel], title: str) -> Figure | None:
    """Draws the panels with a finite value of any metric; returns None if there are none."""
    drawn = [
        panel
        for keys, panel in panels_of.items()
        if any(math.isfinite(value) for key in keys for _, value in metrics.get(key, ()))
    ]
    if not drawn:
        return None
    rows, columns = -(-len(drawn) // 2), min(2, len(drawn))
    figure, axes = panels(rows, columns, (5.0 * columns, 3.2 * rows), title)
    for axis, panel in zip(axes, drawn, strict=False):
        panel(axis)
    for axis in axes[len(drawn) :]:
        axis.remove()
    return figure


def pace(unit: str, metrics: Mapping[str, Points], key: str = "tokens_per_second") -> dict[tuple[str, ...], Panel]:
    """Returns the panels of every training: learning rate, and speed in `unit` from the metric `key`."""

    def rate(axis: Axes) -> None:
        line(axis, metrics.get("lr", ()), BLUE, "learning rate")
        axis.ticklabel_format(axis="y", style="sci", scilimits=(-3, 3), useMathText=True)
        finish(axis, "Learning rate", "step size")

    def speed(axis: Axes) -> None:
        noisy(axis, metrics.get(key, ()), BLUE, "training")
        axis.set_ylim(bottom=0)
        finish(axis, "Speed", unit)
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")

    return {("lr",): rate, (key,): speed}


def length_histogram(bounds: Sequence[int], sides: Mapping[str, Sequence[int]], title: str) -> Figure:
    """Plots sentences by length in tokens. `bounds`: upper bound of each bucket but the last, which is open."""
    figure, (axis,) = panels(1, 1, (8.0, 4.2), title)
    used = max((i + 1 for counts in sides.values() for i, count in enumerate(counts) if count), default=1)
    labels = [_bucket(bounds, i) for i in range(used)]
    width = 0.8 / max(len(sides), 1)
    for i, ((side, counts), colour) in enumerate(zip(sides.items(), (BLUE, ORANGE), strict=False)):
        centres = [column - 0.4 + width * (i + 0.5) for column in range(used)]
        axis.bar(centres, list(counts[:used]), width=0.92 * width, color=colour, label=side)
    axis.set_xticks(range(used), labels, rotation=45 if used > 9 else 0)
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axis.set_xlabel("tokens, end of sentence included")
    axis.set_ylabel("sentences")
    axis.legend(frameon=False)
    clean(axis)
    return figure


def draw_dropped(rules: Mapping[str, int], kept: int, title: str) -> Figure | None:
    """Plots the records that sharding dropped, by rule, most first; None if it dropped none."""
    ordered = sorted(((rule, count) for rule, count in rules.items() if count), key=lambda entry: entry[1])
    if not ordered:
        return None
    figure, (axis,) = panels(1, 1, (8.0, 1.6 + 0.34 * len(ordered)), title)
    axis.barh([rule for rule, _ in ordered], [count for _, count in ordered], color=ORANGE, height=0.6)
    for row, (_, count) in enumerate(ordered):
        axis.annotate(f" {count:,}", (count, row), va="center", fontsize=9)
    axis.margins(x=0.15)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axis.set_xlabel(f"records dropped, of {kept + sum(rules.values()):,}; {kept:,} kept")
    clean(axis)
    return figure


def panels(rows: int, columns: int, size: tuple[float, float], title: str) -> tuple[Figure, list[Axes]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=12, fontweight="bold", x=0.01, ha="left")
    grid = figure.subplots(rows, columns, squeeze=False)
    return figure, [axis for row in grid for axis in row]


def line(axis: Axes, points: Points, colour: str, label: str, marker: str | None = None) -> None:
    drawn = [(step, value) for step, value in points if math.isfinite(value)]
    if drawn:
        few = (marker or ("o" if len(drawn) == 1 else None)) if len(drawn) <= 40 else None
        axis.plot(*zip(*drawn, strict=True), color=colour, label=label, marker=few, markersize=3.5, linewidth=1.6)


def noisy(axis: Axes, points: Points, colour: str, label: str) -> None:
    """Plots the values pale and their running mean in full colour; few values as they are."""
    drawn = [(step, value) for step, value in points if math.isfinite(value)]
    if len(drawn) < SMOOTHED_FROM:
        line(axis, drawn, colour, label)
        return
    axis.plot(*zip(*drawn, strict=True), color=colour, alpha=0.25, linewidth=0.8)
    half = len(drawn) // 60  # centred, so that a falling curve's mean does not lag behind
    means = [
        (drawn[i][0], sum(value for _, value in drawn[i - half : i + half + 1]) / (2 * half + 1))
        for i in range(half, len(drawn) - half)
    ]
    line(axis, means, colour, label)


def _mark_best(axis: Axes, points: Points) -> None:
    drawn = [(step, value) for step, value in points if math.isfinite(value)]
    if drawn:
        step, value = max(drawn, key=lambda point: point[1])
        axis.axhline(value, color=GREY, linewidth=0.8, linestyle=":")
        axis.annotate(
            f"best {value:.2f} at step {step:,}",
            (0.98, 0.06),
            xycoords="axes fraction",
            ha="right",
            fontsize=9,
            color=GREY,
        )


def finish(axis: Axes, title: str, unit: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_title(title, fontsize=10, loc="left")
    axis.set_ylabel(unit, fontsize=9)
    axis.set_xlabel("step", fontsize=9)
    clean(axis)
    first, last = axis.dataLim.intervalx
    if first == last:  # a single point would be labelled with fractions of a step
        axis.set_xlim(first - 1, last + 1)
    axis.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    if len(axis.get_legend_handles_labels()[1]) > 1:
        axis.legend(frameon=False, fontsize=9)


def clean(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color="#e6e8eb", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=9)


def _bucket(bounds: Sequence[int], index: int) -> str:
    if index >= len(bounds):
        return f"> {bounds[-1]}"
    low = bounds[index - 1] + 1 if index else 1
    return str(low) if low == bounds[index] else f"{low}-{bounds[index]}"
