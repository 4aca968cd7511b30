"""Orders and cuts that must never change, or a resumed run would see other batches; and batches made some at a time."""

import numpy as np
import pytest
import torch

from dragoman.pipelines.loaders import pairs
from dragoman.pipelines.loaders.pairs import TOGETHER, PaddedBatches
from dragoman.pipelines.loaders.window import Window, cut, philox_order


def test_cut_is_stable_and_gives_a_long_row_a_batch_of_its_own() -> None:
    lengths = np.array([3, 50, 3, 2, 3])
    rows, parts = cut(np.array([4, 3, 2, 1, 0]), lengths, lengths, 6)
    assert [rows[part].tolist() for part in parts] == [[3, 4], [2, 0], [1]]
    lengths = np.array([4, 5])
    assert len(cut(np.arange(2), lengths, lengths, 8)[1]) == 2, "two rows of 5 tokens are more than 8"
    assert cut(np.zeros(0, dtype=np.int64), lengths, lengths, 6)[1] == []


def test_random_orders_are_these_for_ever() -> None:
    assert philox_order(8, 1, 0).tolist() == [3, 5, 2, 7, 0, 6, 1, 4]
    assert philox_order(8, 1, 5, 2, 1).tolist() == [2, 0, 7, 1, 3, 6, 4, 5]
    assert sorted(philox_order(1000, 1, 2, 3, 4).tolist()) == list(range(1000))
    assert philox_order(8, 1, 0).tolist() != philox_order(8, 1, 1).tolist() != philox_order(8, 1, 0, 1, 1).tolist()


def random_window(dtype: str) -> Window:
    """300 records, of which some are longer than a batch may be."""
    rng = np.random.default_rng(1)
    sides = []
    for longest in (30, 40):
        lengths = rng.integers(1, longest, 300)
        sides += [rng.integers(4, 60_000, lengths.sum()).astype(dtype), np.cumsum(lengths) - lengths, lengths]
    return Window(np.arange(1000, 1300), *sides)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
def test_batches_made_some_at_a_time_are_those_made_one_by_one(
    dtype: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(pairs, "compiled", lambda: None)
    window, parts = random_window(dtype).batches(philox_order(300, 1, 1), 36)
    assert len(parts) > 10 * TOGETHER and len(parts) % TOGETHER, "the last are fewer than are made together"
    order = philox_order(len(parts), 2, 1)
    batches = PaddedBatches(window, parts, order)
    assert len(batches) == len(parts)
    for place in [*range(len(parts)), 5, 0, len(parts) - 1]:  # a run that is resumed begins anywhere
        found, wanted = batches.batch(place), window.batch(parts[order[place]])
        for name in ("source", "target_in", "target_out"):
            assert torch.equal(getattr(found, name), getattr(wanted, name)), (place, name)
        assert (found.items, found.ids.tolist()) == (wanted.items, wanted.ids.tolist())


def test_a_window_without_a_record_has_no_batch() -> None:
    window, parts = random_window("<u2").batches(np.zeros(0, dtype=np.int64), 36)
    assert len(PaddedBatches(window, parts, philox_order(len(parts), 2, 1))) == 0


def test_cut_is_the_largest_batch_that_fits_each_time() -> None:
    rng = np.random.default_rng(2)
    source, target = rng.integers(1, 60, 2000), rng.integers(1, 70, 2000)
    rows, parts = cut(philox_order(2000, 3, 1), source, target, 128)
    longest = np.maximum(source, target)[rows]
    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])] and parts[-1].stop == 2000
    for part in parts:
        rows_of = part.stop - part.start
        assert rows_of == 1 or rows_of * longest[part.stop - 1] <= 128
        assert part.stop == 2000 or (rows_of + 1) * longest[part.stop] > 128
