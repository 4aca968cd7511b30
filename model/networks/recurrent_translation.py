"""The shared parts of recurrent translation networks: word tables, the readout layer, training and decoding.

Letters: B batch, S source length, T target length, E embedding width, V vocabulary.
"""

import math
from abc import abstractmethod

import torch
from torch import Tensor, nn

from dragoman.model.layers.dropout import Dropout
from dragoman.model.layers.recurrent import Recurrent
from dragoman.model.layers.roles import table
from dragoman.model.networks.network import State, Tie, TranslationNetwork, initialise
from dragoman.model.text.batch import TranslationBatch
from dragoman.model.text.tokenizer import PAD


class RecurrentTranslation(TranslationNetwork):
    """An encoder, and a decoder whose `advance` serves teacher forcing and decoding alike.

    `read` brings the decoder's values to the width of an embedding before the output layer, so that the tables can
    always be tied (Press and Wolf 2017).
    """

    encoder: Recurrent
    readout: nn.Linear  # (E, widths of all inputs)

    def __init__(
        self, embedding: int, dropout: float, tie: Tie, positions: int, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__()
        self.max_source_positions = self.max_target_positions = positions
        self.output = table(nn.Linear(embedding, target_vocabulary))
        self.make_tables(tie, embedding, source_vocabulary, target_vocabulary)
        self.dropout = Dropout(dropout)
        self._tied = tie in ("all", "target")

    def _initialise(self) -> None:
        """Initialises the weights; a subclass calls it last."""
        initialise(self)
        if self._tied:
            self.output.weight = self.target_embedding.weight

    def embed(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        """ids (B, T) -> (B, T, E)."""
        return self.dropout(table(ids) * math.sqrt(table.embedding_dim))  # type: ignore[no-any-return]  # modules' calls are untyped

    def layer_states(self, ids: Tensor) -> list[Tensor]:
        """ids (B, S) -> the embeddings (B, S, E) and each encoder layer's hidden states (B, S, width of its output)."""
        states = [self.embed(self.source_embedding, ids)]
        self.encoder(states[0], real=ids != PAD, states=states)
        return states

    def read(self, *parts: Tensor) -> Tensor:
        """tanh(W [h; c; ...]) of parts (B, T, ...) -> (B, T, E) (Luong et al. 2015, equation 5)."""
        return torch.tanh(self.readout(torch.cat(parts, 2)))

    @abstractmethod
    def advance(self, x: Tensor, state: State, record: list[Tensor] | None = None) -> tuple[Tensor, State]:
        """Target tokens x (B, T, E) after `state` -> the output layer's input (B, T, E), and the new state.

        Appends attention weights (B, T, S) to `record`, if given.
        """

    def forward(self, batch: TranslationBatch) -> Tensor:
        """-> states (B, T, E)."""
        return self.teach(batch, None)

    def teach(self, batch: TranslationBatch, record: list[Tensor] | None) -> Tensor:
        """Teacher forcing -> states (B, T, E); records attention weights if there are any."""
        state = self.start(self.encode(batch.source), batch.target_in.shape[1])
        return self.advance(self.embed(self.target_embedding, batch.target_in), state, record)[0]

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (B,) -> logits (B, V)."""
        states, state = self.advance(self.embed(self.target_embedding, tokens[:, None]), state)
        return self.logits(states[:, 0]), state
