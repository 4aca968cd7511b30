"""A batch of sentence pairs, padded: B pairs, S source and T target positions."""

import copy
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad as pad_end

from dragoman.model.text.tokenizer import BOS, EOS, PAD

FIRST = np.zeros(1, dtype=np.int64)  # the first and only table, and its place
Packed = NDArray[Any]  # 1-D ids of many records, one after the other


class PaddedBatch:
    """The operations of every kind of batch: each of its tensors is (B, length), padded at its end."""

    ids: NDArray[np.int64]

    def digest(self) -> int:
        """Returns the crc32 of the ids in their order: equal batches have equal digests on any machine."""
        return zlib.crc32(self.ids.astype("<i8").tobytes())

    def to(self, device: torch.device | str) -> Self:
        return self._each(lambda tensor: tensor.to(device))

    def padded_to(self, multiple: int) -> Self:
        """Returns the same batch with its lengths rounded up to a multiple, by more PAD at the end."""
        if not any(tensor.shape[1] % multiple for tensor in self._tensors().values()):
            return self
        return self._each(lambda tensor: pad_end(tensor, (0, -tensor.shape[1] % multiple), value=PAD))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        changed = copy.copy(self)
        vars(changed).update({key: change(value) for key, value in self._tensors().items()})
        return changed

    def _tensors(self) -> dict[str, Tensor]:
        return {key: value for key, value in vars(self).items() if isinstance(value, Tensor)}


@dataclass
class TranslationBatch(PaddedBatch):
    """The training batch of a translation network."""

    source: Tensor  # (B, S) int64, with EOS, PAD after it
    target_in: Tensor  # (B, T) int64, BOS and the target, PAD after it
    target_out: Tensor  # (B, T) int64, the target and EOS, PAD after it
    items: int  # target tokens that count in the loss: target_out without PAD
    ids: NDArray[np.int64]  # (B,) global record ids


def collate(
    source_ids: Sequence[NDArray[Any]], target_ids: Sequence[NDArray[Any]], ids: Sequence[int] | NDArray[np.int64]
) -> TranslationBatch:
    """Pads B records. Each row ends with EOS, as rows do in the shards.

    Raises ValueError: no rows, sides of different length, or a row that does not end with EOS.
    """
    if not (len(source_ids) == len(target_ids) == len(ids) > 0):
        raise ValueError(f"{len(source_ids)} sources, {len(target_ids)} targets, {len(ids)} ids")
    if any(len(row) == 0 or row[-1] != EOS for side in (source_ids, target_ids) for row in side):
        raise ValueError("every row must end with EOS")
    source_starts, source_lengths = bounds_of(source_ids)
    target_starts, target_lengths = bounds_of(target_ids)
    return gather(
        (np.concatenate(source_ids), source_starts, source_lengths),
        (np.concatenate(target_ids), target_starts, target_lengths),
        np.asarray(ids, dtype=np.int64),
    )


def gather(
    source: tuple[Packed, NDArray[np.int64], NDArray[np.int64]],
    target: tuple[Packed, NDArray[np.int64], NDArray[np.int64]],
    ids: NDArray[np.int64],
) -> TranslationBatch:
    """Pads B records from packed ids; each side is (packed ids, starts (B,), lengths (B,)), with EOS."""
    padded_source, target_out = pad(*source), pad(*target)
    target_in = np.empty_like(target_out)
    flat = target_in.reshape(-1)  # moving all rows at once is fast; BOS overwrites what runs over a row's end
    flat[1:] = target_out.reshape(-1)[:-1]
    target_in[:, 0] = BOS
    width, lengths = target_out.shape[1], target[2]
    shorter = np.flatnonzero(lengths < width)
    flat[shorter * width + lengths[shorter]] = PAD  # overwrites their EOS
    return TranslationBatch(
        torch.from_numpy(padded_source),
        torch.from_numpy(target_in),
        torch.from_numpy(target_out),
        int(target[2].sum()),
        ids,
    )


def pad(packed: Packed, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns rows of `packed`, (B, W) int64 padded with PAD; W = the longest row."""
    out = np.empty((len(starts), int(lengths.max())), dtype=np.int64)
    copies = compiled()
    if copies is None:
        fill_by_index(packed, starts, lengths, out)
    else:  # one table, all of the rows
        bounds, widths = np.array([0, len(starts)]), np.array([out.shape[1]])
        copies.fill_tables(packed, starts, lengths, bounds, widths, FIRST, FIRST, 0, out.reshape(-1))
    return out


@lru_cache(maxsize=1)
def compiled() -> ModuleType | None:
    """Returns the compiled copies; None without numba (a machine with only torch and NumPy)."""
    try:
        import dragoman.model.text.padding
    except ImportError:
        return None
    return dragoman.model.text.padding


def fill_by_index(
    packed: Packed, starts: NDArray[np.int64], lengths: NDArray[np.int64], out: NDArray[np.int64]
) -> None:
    """Fills `out` as the compiled copy does, by an index for every number."""
    columns = np.arange(out.shape[1])
    # comparing 32-bit numbers takes half the time; no row has 2^31 tokens
    real = columns.astype(np.int32) < lengths.astype(np.int32)[:, None]  # (B, W)
    rows = packed.take(starts[:, None] + columns, mode="clip")  # (B, W), runs on into the next records
    np.multiply(rows, real, out=out, casting="unsafe")  # PAD is 0


def bounds_of(rows: Sequence[NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns (starts, lengths) of rows, one after the other."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    return np.cumsum(lengths) - lengths, lengths
