"""Pictures of a sweep: every trial's settings and value, every trial's curve, and the settings' importance."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
from matplotlib import colormaps
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, TrialState

from dragoman.model.files import atomic_path
from dragoman.services.sweeps.study import finished

LOSER, BEST = "#b8b8b8", "#c2410c"
COLOURS = "viridis"
ENOUGH = 4  # trials with a value that the settings' importance needs


def draw(study: optuna.Study, metric: str, folder: Path) -> list[Path]:
    """Draws the pictures as PNG files in `folder`, without those that have too little data."""
    trials = finished(study)
    best = trials[0].number if trials else -1
    found = {"parallel-coordinates": parallel_coordinates(trials, metric), "curves": curves(study.trials, metric, best)}
    weights, after = importance(study)
    if weights:
        found["importance"] = bars(weights, f"{metric} after validation {after}" if after else metric)
    paths = []
    for name, figure in found.items():
        if figure is not None:
            paths.append(folder / f"{name}.png")
            with atomic_path(paths[-1], durable=False) as part:
                figure.savefig(part, dpi=130)
    return paths


def parallel_coordinates(trials: Sequence[FrozenTrial], metric: str) -> Figure | None:
    """Draws one line per trial, through its settings to its value; the best is marked, pruned ones are grey."""
    if len(trials) < 2:
        return None
    keys = sorted({key for one in trials for key in one.params})
    values = [float(one.value or 0) for one in trials]
    scale = Normalize(min(values), max(values))
    places = [_places(trials, key) for key in keys]
    low, high = min(values), max(values)
    places.append(
        ([(value - low) / (high - low or 1) for value in values], [(0.0, f"{low:.4g}"), (1.0, f"{high:.4g}")])
    )
    figure = Figure(figsize=(2.2 + 1.9 * len(keys), 4.2), layout="constrained")
    axes = figure.add_subplot()
    for number in reversed(range(len(trials))):  # the best last, on top of the others
        one = trials[number]
        line = [heights[number] for heights, _ in places]
        pruned = one.state == TrialState.PRUNED
        colour = BEST if number == 0 else LOSER if pruned else colormaps[COLOURS](0.9 * scale(values[number]))
        axes.plot(range(len(line)), line, color=colour, linewidth=2.4 if number == 0 else 1.2, alpha=0.9)
    for place, (_, ticks) in enumerate(places):
        axes.axvline(place, color="#444444", linewidth=0.8)
        for height, words in ticks:
            axes.annotate(words, (place, height), (4, 2), textcoords="offset points", fontsize=8, color="#333333")
    axes.set_xticks(range(len(places)), [*keys, metric], fontsize=9)
    axes.set_yticks([])
    axes.set_xlim(-0.1, len(places) - 0.55)
    axes.spines[:].set_visible(False)
    axes.set_title(f"{len(trials)} trials; the best in orange, those that ended early in grey", fontsize=10, loc="left")
    return figure


def _places(trials: Sequence[FrozenTrial], key: str) -> tuple[list[float], list[tuple[float, str]]]:
    """Returns where each trial crosses a key's axis, from 0 to 1, and the axis' marks."""
    distribution = next(one.distributions[key] for one in trials if key in one.distributions)
    if isinstance(distribution, CategoricalDistribution):
        choices = list(distribution.choices)
        last = max(1, len(choices) - 1)
        heights = [choices.index(one.params[key]) / last if key in one.params else 0.0 for one in trials]
        return heights, [(place / last, str(choice)) for place, choice in enumerate(choices)]
    low, high = float(distribution.low), float(distribution.high)  # type: ignore[attr-defined]  # a number's
    log = isinstance(distribution, FloatDistribution) and distribution.log

    def height(value: float) -> float:
        if log:
            return float(math.log(value / low) / math.log(high / low))
        return (value - low) / (high - low or 1)

    return [height(float(one.params.get(key, low))) for one in trials], [(0.0, f"{low:g}"), (1.0, f"{high:g}")]


def curves(trials: Sequence[FrozenTrial], metric: str, best: int) -> Figure | None:
    """Draws each trial's reported values by validation; `best` is the number of the marked trial."""
    shown = [one for one in trials if one.intermediate_values]
    if not shown:
        return None
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.add_subplot()
    complete = [one for one in shown if one.state == TrialState.COMPLETE]
    for one in shown:
        steps, values = zip(*sorted(one.intermediate_values.items()), strict=True)
        if one.number == best:
            axes.plot(steps, values, label=f"trial {one.number}", color=BEST, linewidth=2.4, marker=".", zorder=3)
        elif one.state == TrialState.COMPLETE:
            colour = colormaps[COLOURS](0.9 * complete.index(one) / max(1, len(complete) - 1))
            axes.plot(steps, values, color=colour, label=f"trial {one.number}", marker=".", markersize=4)
        else:
            axes.plot(steps, values, color=LOSER, linewidth=1, marker="x", markevery=[-1], markersize=5)
    axes.set_xlabel("validation")
    axes.set_ylabel(metric)
    axes.set_title("every trial's curve; the best in orange, those that ended early in grey", fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    if len(complete) <= 12 and axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, frameon=False)
    return figure


def importance(study: optuna.Study) -> tuple[dict[str, float], int]:
    """Returns how much of the values' variance each setting explains (Hutter et al. 2014, fANOVA), the largest first.

    Empty for fewer than ENOUGH trials, or for equal values. Settings that not all trials have are left out. If pruning
    left too few complete trials, all are compared at the last validation that each has reached. That number comes
    beside the weights; it is 0 if the values are those of complete trials.
    """
    done, after = [one for one in study.trials if one.state == TrialState.COMPLETE], 0
    values = [float(one.value or 0) for one in done]
    if len(done) < ENOUGH:
        done = [one for one in study.trials if one.intermediate_values and one.state != TrialState.FAIL]
        after = min((max(one.intermediate_values) for one in done), default=0)
        values = [one.intermediate_values[after] for one in done]
    if len(done) < ENOUGH or len(set(values)) < 2:
        return {}, 0
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # it tells of every study
    compared = optuna.create_study()
    for trial, value in zip(done, values, strict=True):
        compared.add_trial(optuna.create_trial(params=trial.params, distributions=trial.distributions, value=value))
    found = get_param_importances(compared, evaluator=FanovaImportanceEvaluator(seed=1))
    return {key: float(share) for key, share in found.items()}, after


def bars(weights: dict[str, Any], metric: str) -> Figure:
    """Draws one bar per setting."""
    names = list(reversed(weights))
    figure = Figure(figsize=(6.4, 1.2 + 0.42 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    drawn = axes.barh(names, [weights[name] for name in names], color=BEST, height=0.6)
    axes.bar_label(drawn, [f"{weights[name]:.2f}" for name in names], padding=4, fontsize=9)
    axes.set_xlim(0, 1.1 * max(weights.values()) or 1)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.set_xticks([])
    axes.set_title(f"shares of the variance of {metric}", fontsize=10, loc="left")
    return figure
