"""A batch of one language, padded: B rows of T positions, for language models and masked encoders."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from model.text.batch import PaddedBatch, TranslationBatch


@dataclass
class TextBatch(PaddedBatch):
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


Batch: TypeAlias = TranslationBatch | TextBatch  # what the loop moves and the losses take
