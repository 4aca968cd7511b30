"""The bits per character that a language model wins over the one before, tested over records and seeds."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from dragoman.pipelines.comparison.seeds import compare_drawn
from dragoman.pipelines.evaluation.language.comparison import SEED
from dragoman.pipelines.evaluation.metrics import Significance
from dragoman.pipelines.evaluation.resampling import Floats, holm

Bits = tuple[Sequence[float], Sequence[int]]  # bits and characters of each record


def resample_bits(systems: Sequence[Bits], samples: int) -> tuple[Floats, Floats]:
    """Returns (systems,) bits per character of the text and (samples, systems) of sets of records, the same for all."""
    bits, sizes = (np.array([system[place] for system in systems], np.float64) for place in (0, 1))
    rng = np.random.default_rng(SEED)
    drawn = np.empty((samples, len(systems)))
    for number in range(samples):
        rows = rng.integers(0, sizes.shape[1], sizes.shape[1])
        drawn[number] = bits[:, rows].sum(1) / sizes[:, rows].sum(1)
    return bits.sum(1) / sizes.sum(1), drawn


def steps_of(runs: Mapping[str, Sequence[Bits]], samples: int) -> dict[str, tuple[Significance, float | None]]:
    """Returns label -> difference to the label before, and p by Holm over all of them; None with one seed of either."""
    found: dict[str, Significance] = {}
    tested: list[str] = []
    for before, label in pairwise(runs) if samples > 1 else ():
        exact, drawn = resample_bits([*runs[before], *runs[label]], samples)
        found[label] = compare_drawn("bits per character", exact, drawn, len(runs[before]))
        if min(len(runs[before]), len(runs[label])) > 1:
            tested.append(label)
    corrected = dict(zip(tested, holm([found[label].p_value for label in tested]), strict=True))
    return {label: (one, corrected.get(label)) for label, one in found.items()}
