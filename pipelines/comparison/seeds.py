"""Networks trained from several seeds: their runs, and scores with intervals that cover the seeds too."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dragoman.pipelines.comparison.entries import Entry
from dragoman.pipelines.comparison.measures import Measures
from dragoman.pipelines.evaluation.significance import (
    Interval,
    Metric,
    Significance,
    compare_drawn,
    draw_seeds,
    score_resampled,
)


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


def covers(runs: Sequence[Measures]) -> str:
    """Returns what the interval of these runs covers."""
    return "sentences" if len(runs) == 1 else f"sentences and {len(runs)} seeds"
