"""Padding, shifting and counting of batches."""

import numpy as np
import pytest
import torch

from dragoman.model.text.batch import TranslationBatch, collate, fill_by_index, pad
from dragoman.model.text.tokenizer import BOS, EOS, PAD


def rows(*lists: list[int]) -> list[np.ndarray]:
    return [np.array([*row, EOS], dtype=np.uint16) for row in lists]


@pytest.fixture
def batch() -> TranslationBatch:
    return collate(rows([7, 8, 9], [6]), rows([11], [12, 13]), [40, 41])


def test_rows_are_padded_moved_right_for_the_decoder_and_counted(batch: TranslationBatch) -> None:
    assert batch.source.tolist() == [[7, 8, 9, EOS], [6, EOS, PAD, PAD]]
    assert batch.target_out.tolist() == [[11, EOS, PAD], [12, 13, EOS]]
    assert batch.source.dtype == torch.int64
    assert batch.target_in.tolist() == [[BOS, 11, PAD], [BOS, 12, 13]]
    assert batch.items == int((batch.target_out != PAD).sum()) == 5


def test_digest_depends_on_records_and_order_only(batch: TranslationBatch) -> None:
    same = collate(rows([1], [1]), rows([1], [1]), np.array([40, 41]))
    turned = collate(rows([6], [7, 8, 9]), rows([12, 13], [11]), [41, 40])
    assert batch.digest() == same.digest() != turned.digest()
    assert batch.digest() == 0x6EAED61A


def test_moving_keeps_everything(batch: TranslationBatch) -> None:
    moved = batch.to("cpu")
    assert torch.equal(moved.target_in, batch.target_in)
    assert (moved.items, moved.digest()) == (5, batch.digest())


def test_empty_sentences_are_an_end_alone() -> None:
    batch = collate(rows([]), rows([]), [0])
    assert (batch.source.tolist(), batch.target_in.tolist(), batch.target_out.tolist()) == ([[EOS]], [[BOS]], [[EOS]])


def test_pad_equals_the_row_by_row_way() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 40, 200)
    packed = rng.integers(1, 65_536, lengths.sum()).astype(np.uint16)
    starts = np.cumsum(lengths) - lengths
    chosen = rng.permutation(200)[:77]
    padded = pad(packed, starts[chosen], lengths[chosen])
    for row, i in zip(padded, chosen, strict=True):
        expected = packed[starts[i] : starts[i] + lengths[i]]
        assert row[: lengths[i]].tolist() == expected.tolist()
        assert not row[lengths[i] :].any()


def test_decoder_input_equals_the_row_by_row_way() -> None:
    rng = np.random.default_rng(1)
    targets = rows(*(rng.integers(6, 99, n).tolist() for n in rng.integers(0, 20, 100)))
    batch = collate(targets, targets, range(100))
    for row, target in zip(batch.target_in.tolist(), targets, strict=True):
        wanted = [BOS, *target[:-1].tolist()]
        assert row == wanted + [PAD] * (len(row) - len(wanted))


@pytest.mark.parametrize(
    ("source", "target", "ids"),
    [
        ([], [], []),
        (rows([7]), [np.array([7])], [1]),
        (rows([7]), rows([7], [8]), [1]),
        ([np.array([])], rows([1]), [1]),
    ],
)
def test_rows_that_cannot_be_a_batch_are_refused(source: list, target: list, ids: list[int]) -> None:
    with pytest.raises(ValueError):
        collate(source, target, ids)


@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
def test_the_compiled_copy_equals_the_one_without_numba(dtype: str) -> None:
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 30, 50)
    packed = rng.integers(1, 65_536, lengths.sum()).astype(dtype)
    packed.flags.writeable = False  # as a shard's memory map is
    starts = np.cumsum(lengths) - lengths
    out = np.empty((50, int(lengths.max())), dtype=np.int64)
    fill_by_index(packed, starts, lengths, out)
    assert (pad(packed, starts, lengths) == out).all()
