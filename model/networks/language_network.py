"""What every language model of the family offers to the loop, to generation and to scoring; and its loss.

A language model reads the tokens of a text one after the other and gives the probability of the next. In the streams
that it trains on, a text begins right after the end of the one before, so that is what a text is read after here too.
"""

from abc import abstractmethod

import torch
from torch import Tensor

from model.layers.losses import vocabulary_loss
from model.networks.network import Network, State
from model.settings import LossConfig
from model.text.text_batch import TextBatch
from model.text.tokenizer import EOS, PAD

BEFORE = EOS  # the token that the first of a text is predicted from
EVALUATION = -1  # the lane of the states carried in evaluation


class LanguageNetwork(Network):
    """Letters: B batch, T positions, D width of what the output layer reads, V vocabulary."""

    max_positions: int | None  # the most tokens that a text may have; None: no bound
    carried: dict[int, Tensor]  # lane -> detached states (B, ...) after its last batch; empty where nothing is carried

    def __init__(self) -> None:
        super().__init__()
        self.carried = {}

    @abstractmethod
    def forward(self, batch: TextBatch) -> Tensor:
        """The states (B, T, D) that the output layer turns into logits of `batch.targets`.

        A network that carries states begins a batch that goes on in those of its lane, else at the beginning, and
        keeps the last ones, without their graph. In evaluation they are kept apart, under the lane EVALUATION.
        """

    @abstractmethod
    def start(self, rows: int, device: torch.device) -> State:
        """The state of that many texts before their first token."""

    @abstractmethod
    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (B,), the next of each text (BEFORE at first) -> logits (B, V) of the one after, and the state."""

    def read(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (B, T), T > 0 -> logits (B, V) of the token after the last, and the state: `step` for each.

        Networks that read many tokens faster than one by one do so.
        """
        logits, state = self.step(tokens[:, 0], state)
        for t in range(1, tokens.shape[1]):
            logits, state = self.step(tokens[:, t], state)
        return logits, state

    def reorder(self, state: State, rows: Tensor) -> State:
        """The state of the texts `rows` (B',): kept, copied or dropped."""
        return {name: value.index_select(0, rows) for name, value in state.items()}


def language_loss(network: Network, batch: TextBatch, config: LossConfig) -> tuple[Tensor, Tensor]:
    """(loss, nll) summed over the `batch.items` targets that are not PAD; nothing else reaches the output layer.

    For masked networks too, whose targets are PAD but where a token is to be guessed.
    """
    states = network(batch).flatten(0, 1)  # (BT, D)
    targets = batch.targets.flatten()  # (BT,)
    if batch.items < len(targets):
        counted = (targets != PAD).nonzero()[:, 0]  # (N,)
        states, targets = states.index_select(0, counted), targets.index_select(0, counted)
    return vocabulary_loss(states, targets, network.output, config.label_smoothing)
