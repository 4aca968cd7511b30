"""The importance of settings: the share of a measure's variance that each of them explains, by Optuna's fANOVA."""

from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.importance import FanovaImportanceEvaluator, get_param_importances

ENOUGH = 4  # trials with a value that an estimate needs
Trial = tuple[Mapping[str, Any], Mapping[str, BaseDistribution], float]  # settings, their distributions, value


def importance(trials: Sequence[Trial]) -> dict[str, float]:
    """Returns setting -> share, 0 to 1, the largest first; empty for fewer than ENOUGH trials, or for equal values.

    Fits a random forest to the values (Hutter et al. 2014). Settings that not all trials have are left out.
    """
    if len(trials) < ENOUGH or len({value for _, _, value in trials}) < 2:
        return {}
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # it tells of every study
    compared = optuna.create_study()
    for settings, distributions, value in trials:
        compared.add_trial(optuna.create_trial(params=dict(settings), distributions=dict(distributions), value=value))
    found = get_param_importances(compared, evaluator=FanovaImportanceEvaluator(seed=1))
    return {key: float(share) for key, share in found.items()}
