"""Networks trained from several seeds: their runs, and scores with intervals that cover the seeds too."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pipelines.comparison.entries import Entry
from pipelines.comparison.intervals import Interval, Metric
from pipelines.comparison.measures import Measures
from pipelines.evaluation.metrics import Significance
from pipelines.evaluation.resampling import draw_seeds, score_resampled, welch_p


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
    """Tests whether `after`'s runs are better than `before`'s on average, on the same sentences, seeds apart.

    A single seed proves nothing: the p-value is then 1.
    """
    runs = [one.hypotheses for one in (*before, *after)]
    exact, drawn = score_resampled(runs, references, "bleu", tokenize, samples)
    first, second = np.split(exact, [len(before)])
    differences = draw_seeds(drawn[:, len(before) :], seed=2) - draw_seeds(drawn[:, : len(before)], seed=1)
    difference = float(second.mean() - first.mean())
    return Significance(
        metric="bleu",
        baseline=float(first.mean()),
        candidate=float(second.mean()),
        difference=difference,
        mean_difference=float(differences.mean()),
        p_value=welch_p(differences, first, second) if min(len(before), len(after)) > 1 else 1.0,
        samples=samples,
        signature=f"seeds:{len(before)},{len(after)}|bs:{samples}",
    )


def covers(runs: Sequence[Measures]) -> str:
    """Returns what the interval of these runs covers."""
    return "sentences" if len(runs) == 1 else f"sentences and {len(runs)} seeds"
