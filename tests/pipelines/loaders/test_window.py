"""Orders and cuts that must never change, or a resumed run would see other batches."""

import numpy as np

from pipelines.loaders.window import cut, philox_order


def test_cut_is_stable_and_gives_a_long_row_a_batch_of_its_own() -> None:
    lengths = np.array([3, 50, 3, 2, 3])
    rows, parts = cut(np.array([4, 3, 2, 1, 0]), lengths, lengths, 6)
    assert [rows[part].tolist() for part in parts] == [[3, 4], [2, 0], [1]]
    assert cut(np.zeros(0, dtype=np.int64), lengths, lengths, 6)[1] == []


def test_random_orders_are_these_for_ever() -> None:
    assert philox_order(8, 1, 0).tolist() == [3, 5, 2, 7, 0, 6, 1, 4]
    assert philox_order(8, 1, 5, 2, 1).tolist() == [2, 0, 7, 1, 3, 6, 4, 5]
    assert sorted(philox_order(1000, 1, 2, 3, 4).tolist()) == list(range(1000))
    assert philox_order(8, 1, 0).tolist() != philox_order(8, 1, 1).tolist() != philox_order(8, 1, 0, 1, 1).tolist()
