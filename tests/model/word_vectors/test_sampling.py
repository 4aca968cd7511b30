"""Subsampling and the distribution of negatives."""

import numpy as np
import pytest

from dragoman.model.word_vectors.sampling import AliasTable, as_bits, keep_probability

ZIPF = np.maximum(1, (1e6 / np.arange(1, 3001)).astype(np.int64))
UNIFORM = np.full(1000, 7)
EXTREME = np.array([10**15, 1, 1])


@pytest.mark.parametrize("counts", [ZIPF, EXTREME, np.array([1, 1])], ids=["zipf", "extreme", "two"])
@pytest.mark.parametrize("exponent", [0.75, 0.0, -0.5])
def test_the_alias_table_is_the_distribution(counts: np.ndarray, exponent: float) -> None:
    table = AliasTable.of(counts, exponent)
    weights = counts.astype(float) ** exponent
    np.testing.assert_allclose(table.probabilities(), weights / weights.sum(), rtol=1e-9, atol=1e-15)
    assert ((table.thresholds >= 0) & (table.thresholds <= 1)).all()


def test_draws_from_the_alias_table_have_its_frequencies() -> None:
    table, rng = AliasTable.of(ZIPF, 0.75), np.random.default_rng(1)
    rows = rng.integers(0, len(ZIPF), 1_000_000)
    rows = np.where(rng.random(len(rows)) < table.thresholds[rows], rows, table.aliases[rows])
    expected = ZIPF**0.75 / (ZIPF**0.75).sum() * len(rows)
    found = np.bincount(rows, minlength=len(ZIPF))
    chi_square = ((found - expected) ** 2 / expected).sum() / (len(ZIPF) - 1)
    assert 0.9 < chi_square < 1.1


def test_keep_probability_is_the_original_tools() -> None:
    counts, sample = np.array([600, 300, 99, 1]), 1e-1
    total = counts.sum()
    expected = [min(1.0, (np.sqrt(n / (sample * total)) + 1) * (sample * total) / n) for n in counts]
    np.testing.assert_allclose(keep_probability(counts, sample), expected)
    assert (keep_probability(counts, 0.0) == 1).all()
    assert (keep_probability(UNIFORM, 1e-3) == 1).all()


def test_bits_keep_certainty() -> None:
    assert as_bits(np.array([0.0, 0.5, 1.0])).tolist() == [0, 2**31 - 1, 2**32 - 1]
