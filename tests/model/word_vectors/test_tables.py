"""Rows on cache lines, first values, and tables gone bad."""

import numpy as np
import pytest

from dragoman.model.word_vectors import tables


@pytest.mark.parametrize(("width", "columns"), [(1, 16), (7, 16), (16, 16), (33, 48), (100, 112), (300, 304)])
def test_rows_fill_whole_cache_lines(width: int, columns: int) -> None:
    table = tables.zeros(5, width)
    assert table.shape == (5, columns)
    assert table.flags.c_contiguous
    assert table.ctypes.data % 64 == 0
    assert not table.any()


@pytest.mark.parametrize(("count", "kind"), [(1, np.uint64), (5, np.int32), (16, np.float32), (0, np.int64)])
def test_lines_are_shared_with_nothing(count: int, kind: type[np.generic]) -> None:
    made = [tables.lines(count, kind) for _ in range(20)]
    for one in made:
        assert (one.shape, one.dtype, one.flags.c_contiguous, one.any()) == ((count,), kind, True, False)
        assert count == 0 or one.ctypes.data % 64 == 0
    if count:
        taken = [set(range(one.ctypes.data // 64, (one.ctypes.data + one.nbytes - 1) // 64 + 1)) for one in made]
        assert len(set().union(*taken)) == sum(map(len, taken))


def test_first_values_are_small_and_repeat_by_their_seed() -> None:
    table = tables.draw_table(70_000, 10, 3)
    assert np.array_equal(table, tables.draw_table(70_000, 10, 3))
    assert not np.array_equal(table, tables.draw_table(70_000, 10, 4))
    assert np.abs(table).max() <= 0.05
    assert not table[:, 10:].any()
    assert abs(float(table[:, :10].std()) - 0.1 / np.sqrt(12)) < 1e-4
    np.testing.assert_allclose(tables.draw_table(70_000, 10, 3, 1.0), 2 * table, rtol=1e-6)
