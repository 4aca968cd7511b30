"""Batches of one language offer what translation batches do."""

import zlib

import numpy as np
import torch

from dragoman.model.text.text_batch import TextBatch


def batch(rows: int = 2, length: int = 5, goes_on: bool = False) -> TextBatch:
    tokens = torch.arange(6, 6 + rows * (length + 1)).view(rows, length + 1)
    ids = np.arange(rows, dtype=np.int64) * 100
    return TextBatch(tokens[:, :-1], tokens[:, 1:], rows * length, ids, lane=3, goes_on=goes_on)


def test_the_digest_is_that_of_the_ids_in_their_order() -> None:
    one = batch()
    assert one.digest() == zlib.crc32(np.array([0, 100], "<i8").tobytes())
    one.ids = one.ids[::-1].copy()
    assert one.digest() != batch().digest()


def test_padding_adds_pad_to_inputs_and_targets_alone() -> None:
    wide = batch(goes_on=True).padded_to(8)
    assert wide.inputs.shape == wide.targets.shape == (2, 8)
    assert wide.inputs[:, 5:].eq(0).all() and wide.targets[:, 5:].eq(0).all()
    assert torch.equal(wide.inputs[:, :5], batch().inputs)
    assert (wide.items, wide.lane, wide.goes_on) == (10, 3, True)


def test_a_length_that_fits_stays_as_it_is() -> None:
    one = batch()
    assert one.padded_to(5) is one and one.padded_to(1) is one


def test_moving_keeps_lane_and_course() -> None:
    moved = batch(goes_on=True).to("meta")
    assert moved.inputs.device.type == moved.targets.device.type == "meta"
    assert (moved.items, moved.lane, moved.goes_on) == (10, 3, True)
