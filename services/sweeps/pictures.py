"""Pictures of a sweep, as Optuna draws them: every trial's settings and value, its curve, the settings' importance."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
from matplotlib import pyplot
from optuna.importance import FanovaImportanceEvaluator
from optuna.trial import FrozenTrial, TrialState
from optuna.visualization import matplotlib as drawing

from dragoman.model.files import atomic_path
from dragoman.services.sweeps.study import finished

ENOUGH = 4  # trials with a value that the settings' importance needs


def draw(study: optuna.Study, metric: str, folder: Path) -> list[Path]:
    """Draws the pictures as PNG files in `folder`, without those that have too little data."""
    pyplot.switch_backend("Agg")  # opens no window
    pictures: dict[str, Any] = {}
    trials, (compared, after) = finished(study), comparable(study)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna's, that this way to draw is new
        if len(trials) > 1:
            every = _study_of(study, trials, [float(trial.value or 0) for trial in trials])
            pictures["parallel-coordinates"] = drawing.plot_parallel_coordinate(every), f"settings and {metric}"
        if any(trial.intermediate_values for trial in study.trials):
            pictures["curves"] = drawing.plot_intermediate_values(study), f"{metric} by validation"
        if compared is not None:
            of = f"{metric} after validation {after}" if after else metric
            drawn = drawing.plot_param_importances(compared, evaluator=FanovaImportanceEvaluator(seed=1))
            pictures["importance"] = drawn, f"shares of the variance of {of}"
    paths = []
    for name, (axes, title) in pictures.items():
        axes.set_title(title)
        paths.append(folder / f"{name}.png")
        with atomic_path(paths[-1], durable=False) as part:
            axes.figure.savefig(part, dpi=130, bbox_inches="tight")
        pyplot.close(axes.figure)
    return paths


def comparable(study: optuna.Study) -> tuple[optuna.Study | None, int]:
    """Returns a study of the trials whose values can be compared, and the validation that the values are of.

    Of these it is told how much each setting explains of the values' variance (Hutter et al. 2014, fANOVA). They are
    the complete trials, and the number is 0. If pruning left too few of them, all are compared at the last
    validation that each has reached. None for fewer than ENOUGH trials, or for equal values.
    """
    done, after = [trial for trial in study.trials if trial.state == TrialState.COMPLETE], 0
    values = [float(trial.value or 0) for trial in done]
    if len(done) < ENOUGH:
        done = [trial for trial in study.trials if trial.intermediate_values and trial.state != TrialState.FAIL]
        after = min((max(trial.intermediate_values) for trial in done), default=0)
        values = [trial.intermediate_values[after] for trial in done]
    if len(done) < ENOUGH or len(set(values)) < 2:
        return None, 0
    return _study_of(study, done, values), after


def _study_of(study: optuna.Study, trials: Sequence[FrozenTrial], values: Sequence[float]) -> optuna.Study:
    """Returns these trials as complete ones with these values."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # it tells of every study
    made = optuna.create_study(direction=study.direction)
    for trial, value in zip(trials, values, strict=True):
        made.add_trial(optuna.create_trial(params=trial.params, distributions=trial.distributions, value=value))
    return made
