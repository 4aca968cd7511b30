"""Rows on cache lines, first values, and tables gone bad."""

import numpy as np

from dragoman.model.word_vectors import tables


def test_first_values_are_small_and_repeat_by_their_seed() -> None:
    table = tables.draw_table(70_000, 10, 3)
    assert np.array_equal(table, tables.draw_table(70_000, 10, 3))
    assert not np.array_equal(table, tables.draw_table(70_000, 10, 4))
    assert np.abs(table).max() <= 0.05
    assert not table[:, 10:].any()
    assert abs(float(table[:, :10].std()) - 0.1 / np.sqrt(12)) < 1e-4
    np.testing.assert_allclose(tables.draw_table(70_000, 10, 3, 1.0), 2 * table, rtol=1e-6)
