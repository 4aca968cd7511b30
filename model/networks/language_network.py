"""The interface of language models, for training, generation and scoring; and their loss.

A language model reads the tokens of a text one after the other and gives the probability of the next. In its training
streams a text begins right after the end of the previous one, so every text is read after such an end.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dragoman.model.layers.losses import vocabulary_loss
from dragoman.model.networks.network import Network, State
from dragoman.model.settings import LossConfig
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import EOS, PAD

BEFORE = EOS  # the input from which a text's first token is predicted
EVALUATION = -1  # the lane of the states carried in evaluation


class LanguageNetwork(Network):
    """Letters: B batch, T positions, D width of what the output layer reads, V vocabulary."""

    max_positions: int | None  # the most tokens of a text; None: unlimited
    carried: dict[int, Tensor]  # lane -> detached states (B, ...) after its last batch; empty if no state is carried

    def __init__(self) -> None:
        super().__init__()
        self.carried = {}

    @abstractmethod
    def forward(self, batch: TextBatch) -> Tensor:
        """Returns the states (B, T, D) that the output layer turns into logits of `batch.targets`.

        A network that carries states starts a continuing batch from those of its lane, any other batch from the initial
        state, and keeps the last ones, detached. Evaluation has its own lane, EVALUATION.
        """

    @abstractmethod
    def start(self, rows: int, device: torch.device) -> State:
        """Returns the state of that many texts before their first token."""

    @abstractmethod
    def read(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (B, T), T > 0, the next of each text (BEFORE at first) -> logits (B, V) of the following one, and the
        state."""

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (B,), one of each text -> as `read`."""
        return self.read(tokens[:, None], state)

    def carried_state(self, lane: int, rows: int) -> Tensor:
        """Returns the state (B, ...) after the lane's last batch."""
        state = self.carried.get(lane)
        if state is None or len(state) != rows:
            description = "none" if state is None else f"states of {len(state)} rows"
            raise ValueError(f"a batch of {rows} rows goes on in lane {lane}, where there are {description}")
        return state


def language_loss(network: Network, batch: TextBatch, config: LossConfig) -> tuple[Tensor, Tensor]:
    """Returns (loss, nll) summed over the `batch.items` targets that are not PAD; only these reach the output layer.

    Also for masked networks, whose targets are PAD except where a token is to be predicted.
    """
    states = network(batch).flatten(0, 1)  # (BT, D)
    targets = batch.targets.flatten()  # (BT,)
    if batch.items < len(targets):
        counted = (targets != PAD).nonzero()[:, 0]  # (N,)
        states, targets = states.index_select(0, counted), targets.index_select(0, counted)
    return vocabulary_loss(states, targets, network.output, config.label_smoothing)


def one_vocabulary(network: Callable[[Any, int], Network]) -> Callable[[Any, int, int], Network]:
    """Returns the builder of a network of one language, which takes its one vocabulary for both arguments."""
    return lambda config, vocabulary, _same: network(config, vocabulary)
