"""A batch of one language, padded: B rows of T positions, for language models and masked encoders."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dragoman.model.text.batch import PaddedBatch, TranslationBatch


@dataclass
class TextBatch(PaddedBatch):
    """The training batch of a network of one language.

    A language model predicts each target from the inputs up to its place; a masked encoder predicts the targets that
    are not PAD from all inputs. `goes_on` means that rows continue the lane's last batch: a recurrent network then
    starts from its last states (truncated back-propagation through time).
    """

    inputs: Tensor  # (B, T) int64: the token before each target, or the text with its masks; PAD after it
    targets: Tensor  # (B, T) int64, PAD where nothing is predicted; of texts' labels (B, 1)
    items: int  # targets that count in the loss: all but PAD
    ids: NDArray[np.int64]  # (B,) global record ids, or the global token position of each window's start
    lane: int = 0  # the rows continue this lane's carried states
    goes_on: bool = False  # each row continues the same row of the lane's previous batch


Batch: TypeAlias = TranslationBatch | TextBatch  # the batches that the training loop and the losses take
