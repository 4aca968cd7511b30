"""A batch of one language, padded: B rows of T positions, for language models and masked encoders."""

import zlib
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.text.batch import TranslationBatch
from model.text.tokenizer import PAD


@dataclass
class TextBatch:
    """What a network of one language trains on.

    A language model predicts each target from the inputs up to its place; a masked encoder predicts the targets that
    are not PAD from all inputs. Rows that begin where the lane's last batch ended say so by `goes_on`: a recurrent
    network then starts from the states it was left in (truncated back-propagation through time).
    """

    inputs: Tensor  # (B, T) int64: the token before each target, or the text with its masks; PAD after it
    targets: Tensor  # (B, T) int64, PAD where nothing is predicted
    items: int  # targets that count in the loss: all but PAD
    source_items: int  # 0: there is no source
    ids: NDArray[np.int64]  # (B,) global record ids, or the global token position where each window begins
    lane: int = 0  # whose carried states the rows go on from
    goes_on: bool = False  # each row begins where the same row of the lane's batch before ended

    def digest(self) -> int:
        """crc32 of the ids in their order: equal batches have equal digests on any machine."""
        return zlib.crc32(self.ids.astype("<i8").tobytes())

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "TextBatch":
        """The same batch on `device`."""
        return replace(
            self,
            inputs=self.inputs.to(device, non_blocking=non_blocking),
            targets=self.targets.to(device, non_blocking=non_blocking),
        )

    def padded_to(self, multiple: int) -> "TextBatch":
        """The same batch with T rounded up to a multiple, by more PAD at the end."""
        more = -self.inputs.shape[1] % multiple
        if more == 0:
            return self
        inputs, targets = (torch.nn.functional.pad(t, (0, more), value=PAD) for t in (self.inputs, self.targets))
        return replace(self, inputs=inputs, targets=targets)

    def pin_memory(self) -> "TextBatch":
        """The same batch in page-locked memory, for copies to a GPU that overlap with its work."""
        return replace(self, inputs=self.inputs.pin_memory(), targets=self.targets.pin_memory())


Batch: TypeAlias = TranslationBatch | TextBatch  # what the loop moves and the losses take
