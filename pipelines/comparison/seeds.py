"""Networks trained from several seeds: their runs, and the differences of their means."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from dragoman.pipelines.comparison.entries import Entry
from dragoman.pipelines.evaluation.significance import Floats, Significance, compare_drawn, holm

T = TypeVar("T")
Step = tuple[Significance, float | None]  # to the row before; p by Holm over all, None with one seed of either


def with_seeds(entries: Sequence[Entry], seeds: int) -> list[Entry]:
    """Returns the entries; after each one trained here, the same with the next `seeds - 1` seeds."""
    with_seed = []
    for entry in entries:
        with_seed.append(entry)
        for number in range(2, seeds + 1) if entry.config is not None else ():
            assert entry.config is not None
            again = replace(entry.config, name=f"{entry.config.name}-seed{number}", seed=entry.config.seed + number - 1)
            with_seed.append(Entry(f"{entry.label}-seed{number}", config=again, kind=entry.kind, again=entry.label))
    return with_seed


def steps(
    runs: Mapping[str, Sequence[T]], metric: str, draw: Callable[[Sequence[T]], tuple[Floats, Floats]], samples: int
) -> dict[str, Step]:
    """Returns label -> its runs' mean against that of the label before; nothing without samples.

    `draw` scores runs on the test set and on resampled ones, the same for all. One seed cannot tell a better network
    from a luckier seed, so that difference has no p-value.
    """
    significances: dict[str, Significance] = {}
    tested: list[str] = []
    for before, label in pairwise(runs) if samples > 1 else ():
        significances[label] = compare_drawn(metric, *draw([*runs[before], *runs[label]]), len(runs[before]))
        if min(len(runs[before]), len(runs[label])) > 1:
            tested.append(label)
    corrected = dict(zip(tested, holm([significances[label].p_value for label in tested]), strict=True))
    return {label: (significance, corrected.get(label)) for label, significance in significances.items()}
