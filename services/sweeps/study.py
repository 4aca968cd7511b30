"""The study: the trials and their results in one of Optuna's files, so that the same command resumes it."""

import itertools
import json
import logging
import math
import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from dragoman.model.errors import UserError
from dragoman.services.sweeps.settings import SweepConfig
from dragoman.services.sweeps.space import Space

STARTUP = 5  # random trials before tpe uses its results


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Silences Optuna's log lines and its notes on experimental parts."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


def open_study(folder: Path, name: str, config: SweepConfig, space: Space, seed: int) -> optuna.Study:
    """Opens the study of this name, new or begun."""
    facts = {
        "fixed": list(space.fixed),
        "space": {
            key: optuna.distributions.distribution_to_json(distribution) for key, distribution in space.varied.items()
        },
        "metric": config.metric,
        "direction": config.direction,
    }
    folder.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        storage=f"sqlite:///{folder}/study.db",
        study_name=name,
        direction=config.direction,
        sampler=_sampler(config, space, seed),
        pruner=_pruner(config),
        load_if_exists=True,
    )
    begun = study.user_attrs.get("asked")
    if begun is not None and begun != json.loads(json.dumps(facts)):
        different = sorted(key for key in facts if begun.get(key) != facts[key])
        raise UserError(
            f"name={name}: a sweep of this name was begun with another {' and '.join(different)} ({folder}). Give the "
            f"same again to go on with it, or another name"
        )
    study.set_user_attr("asked", facts)
    if config.sampler == "grid":
        for values in _combinations(space, seed)[len(study.trials) :]:  # it may have been killed while it queued them
            study.enqueue_trial(values)
    return study


def _combinations(space: Space, seed: int) -> list[dict[str, Any]]:
    """Returns a grid's combinations in a random order by seed: adjacent ones in a row would tell a pruner little."""
    grid = space.grid()
    combinations = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    random.Random(seed).shuffle(combinations)
    return combinations


def _sampler(config: SweepConfig, space: Space, seed: int) -> BaseSampler:
    if config.sampler != "tpe":
        return RandomSampler(seed=seed)  # a grid's trials are all in the queue already
    return TPESampler(seed=seed, n_startup_trials=STARTUP, multivariate=True, constant_liar=config.parallel > 1)


def _pruner(config: SweepConfig) -> optuna.pruners.BasePruner:
    if config.pruner == "none":
        return optuna.pruners.NopPruner()
    return optuna.pruners.SuccessiveHalvingPruner(
        min_resource=config.min_resource, reduction_factor=config.reduction_factor
    )


def most_trials(config: SweepConfig, space: Space) -> int:
    """Returns the number of trials: a grid may have fewer than allowed."""
    if config.sampler != "grid":
        return config.trials
    return min(config.trials, math.prod(len(values) for values in space.grid().values()))


def finished(study: optuna.Study) -> list[FrozenTrial]:
    """Returns the trials with a value, the best first. A pruned one counts with its best value."""
    sign = 1 if study.direction == optuna.study.StudyDirection.MINIMIZE else -1
    trials = [trial for trial in study.trials if trial.state.is_finished() and trial.value is not None]
    return sorted(trials, key=lambda trial: (trial.state != TrialState.COMPLETE, sign * float(trial.value or 0)))


def best_of(values: Sequence[float], direction: str) -> float:
    """Returns the best of a curve's values so far."""
    return min(values) if direction == "minimize" else max(values)


def records(study: optuna.Study, metric: str) -> list[dict[str, Any]]:
    """Returns the trials, the best first; `value` is the metric's."""
    begun = [trial for trial in study.trials if trial.state != TrialState.WAITING]
    rest = [trial_row for trial_row in begun if trial_row.number not in {trial.number for trial in finished(study)}]
    state = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}
    return [
        {
            "trial": trial.number,
            "job": trial.user_attrs.get("job"),
            "state": state.get(trial.state, "runs"),
            "metric": metric,
            "value": trial.value,
            "settings": dict(trial.params),
        }
        for trial in [*finished(study), *rest]
    ]


def table(study: optuna.Study, metric: str) -> list[list[str]]:
    """Returns one row per trial, the best first, for display."""
    varied = sorted({key for trial in study.trials for key in trial.params})
    rows = [["TRIAL", "JOB", "STATE", metric, *varied]]
    for record in records(study, metric):
        value = f"{record['value']:.5g}" if record["value"] is not None else "-"
        cells = [shown(record["settings"].get(key, "-")) for key in varied]
        rows.append([str(record["trial"]), record["job"] or "-", record["state"], value, *cells])
    return rows


def shown(value: Any) -> str:
    """Returns a setting as displayed."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
