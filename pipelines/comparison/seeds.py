"""Networks trained from several seeds: their runs, and scores with intervals that cover the seeds too."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dragoman.pipelines.comparison.entries import Entry
from dragoman.pipelines.comparison.intervals import Interval, Metric
from dragoman.pipelines.comparison.measures import Measures
from dragoman.pipelines.evaluation.metrics import Significance
from dragoman.pipelines.evaluation.resampling import Floats, draw_seeds, score_resampled, welch_p


def with_seeds(entries: Sequence[Entry], seeds: int) -> list[Entry]:
    """Returns the entries; after each one trained here, the same with the next `seeds - 1` seeds."""
    found = []
    for one in entries:
        found.append(one)
        for number in range(2, seeds + 1) if one.config is not None else ():
            assert one.config is not None
            again = replace(one.config, name=f"{one.config.name}-seed{number}", seed=one.config.seed + number - 1)
            found.append(Entry(f"{one.label}-seed{number}", config=again, kind=one.kind, again=one.label))
    return found


def over_seeds(runs: Sequence[Measures], references: Sequence[str], tokenize: str, samples: int) -> Measures:
    """Returns the first run's measures with the runs' mean scores and intervals over sentences and seeds."""
    if len(runs) == 1 or samples < 2:
        return runs[0]

    def of(metric: Metric) -> Interval:
        exact, drawn = score_resampled([one.hypotheses for one in runs], references, metric, tokenize, samples)
        low, high = np.percentile(draw_seeds(drawn), (2.5, 97.5))
        return Interval(float(exact.mean()), max(0.0, float(low)), min(100.0, float(high)))  # widened past the range

    return replace(runs[0], bleu=of("bleu"), chrf=of("chrf"))


def compare_seeds(
    before: Sequence[Measures], after: Sequence[Measures], references: Sequence[str], tokenize: str, samples: int
) -> Significance:
    """Tests whether `after`'s runs are better than `before`'s on average, on the same sentences."""
    runs = [one.hypotheses for one in (*before, *after)]
    return compare_drawn("bleu", *score_resampled(runs, references, "bleu", tokenize, samples), len(before))


def compare_drawn(metric: str, exact: Floats, drawn: Floats, count: int) -> Significance:
    """Tests the mean of the systems from `count` on against that of those before it, seeds apart.

    `exact` (systems,) are the scores, `drawn` (samples, systems) those of resampled test sets, the same for all. A
    single seed proves nothing: the p-value is then 1.
    """
    first, second = np.split(exact, [count])
    differences = draw_seeds(drawn[:, count:], seed=2) - draw_seeds(drawn[:, :count], seed=1)
    return Significance(
        metric=metric,
        baseline=float(first.mean()),
        candidate=float(second.mean()),
        difference=float(second.mean() - first.mean()),
        mean_difference=float(differences.mean()),
        p_value=welch_p(differences, first, second) if min(len(first), len(second)) > 1 else 1.0,
        samples=len(drawn),
        signature=f"seeds:{len(first)},{len(second)}|bs:{len(drawn)}",
    )


def covers(runs: Sequence[Measures]) -> str:
    """Returns what the interval of these runs covers."""
    return "sentences" if len(runs) == 1 else f"sentences and {len(runs)} seeds"
