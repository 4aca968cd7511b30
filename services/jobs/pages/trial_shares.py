"""The importance of trials' settings, computed beside the requests: some seconds for many trials."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from dragoman.services.jobs.pages.trial_pictures import Axis, to_number
from dragoman.services.jobs.pages.trials import Trial
from dragoman.services.jobs.service.curves import thinned
from dragoman.services.jobs.states import State

SAMPLE = 200  # trials of an estimate, evenly spaced
ENOUGH = 4  # complete trials; with fewer, all are compared at the last validation that each has reached
KEPT = 64  # lists
WAITING = 8  # lists to be computed; more are refused until one is done
Shares = Mapping[str, float]
logger = logging.getLogger(__name__)


class ShareCache:
    """The shares of the lists that were asked for last. One thread computes them, one list after another."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, tuple[Hashable, Shares]] = OrderedDict()
        self._asked: set[Hashable] = set()
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "importance")

    def shares(
        self, name: Hashable, scored: Sequence[tuple[Trial, float]], keys: Sequence[str], measure: str
    ) -> Shares | None:
        """Returns setting -> share; of fewer trials while those of all are computed, None before the first."""
        if not keys or len(scored) < ENOUGH:
            return {}
        mark = hash(tuple((trial.job, trial.state, score) for trial, score in scored))
        with self._lock:
            before = self._known.get(name)
            if before is not None and before[0] == mark:
                return before[1]
            if name not in self._asked and len(self._asked) < WAITING:
                self._asked.add(name)
                self._thread.submit(self._compute, name, mark, list(scored), list(keys), measure)
        return before[1] if before is not None else None

    def _compute(
        self, name: Hashable, mark: Hashable, scored: Sequence[tuple[Trial, float]], keys: Sequence[str], measure: str
    ) -> None:
        found: Shares = {}
        try:
            found = compute_shares(scored, keys, measure)
        except Exception:
            logger.exception("the importance of settings could not be computed")  # the page goes on without
        finally:
            with self._lock:
                self._asked.discard(name)
                self._known[name] = mark, found
                while len(self._known) > KEPT:
                    self._known.popitem(last=False)


def compute_shares(scored: Sequence[tuple[Trial, float]], keys: Sequence[str], measure: str) -> Shares:
    """Returns the share of the scores' variance that each setting explains; empty for too few trials.

    As `services/sweeps` computes it, but over the range of the values that were tried.
    """
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

    from dragoman.services.jobs.service.importance import importance

    compared = [(trial, score) for trial, score in scored if trial.state == State.SUCCEEDED]
    if len(compared) < ENOUGH:
        reached = [trial for trial, _ in scored if trial.state != State.FAILED]
        last = min((len(trial.measures[measure]) for trial in reached), default=0)
        compared = [(trial, trial.measures[measure][last - 1]) for trial in reached]
    if not compared:
        return {}
    distributions: dict[str, BaseDistribution] = {}
    for key in keys:
        axis = Axis.of([trial.settings.get(key) for trial, _ in compared])
        if len(axis.choices) > 1:
            distributions[key] = CategoricalDistribution(axis.choices)
        elif axis.low < axis.high:
            distributions[key] = FloatDistribution(axis.low, axis.high, log=axis.log)

    if not distributions:
        return {}

    def value(trial: Trial, key: str) -> str | float:
        text = trial.settings.get(key) or ""
        return text if isinstance(distributions[key], CategoricalDistribution) else to_number(text) or 0.0

    some = thinned(compared, SAMPLE)
    return importance([({key: value(one, key) for key in distributions}, distributions, score) for one, score in some])
