"""The recurrent encoder-decoder with attention: RNNsearch (Bahdanau et al. 2015; Luong et al. 2015).

Letters: B batch, S source length, T target length, E embedding width, W width of the decoder's state, A annotation
width (two directions of the encoder), L layers of the decoder, P parts of a state (1; LSTM 2), V vocabulary.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from dragoman.model.layers.attention_scores import ScoreName, attend, attention_weights, make_score
from dragoman.model.layers.cells import CELLS, CellName
from dragoman.model.layers.recurrent import Recurrent
from dragoman.model.layers.roles import packed
from dragoman.model.networks.network import Architecture, Memory, State, Tie, translation_loss
from dragoman.model.networks.recurrent_translation import RecurrentTranslation
from dragoman.model.ranges import Count, Part
from dragoman.model.text.batch import TranslationBatch
from dragoman.model.text.tokenizer import PAD


@dataclass
class RNNSearchConfig:
    """Sizes and switches."""

    architecture: Literal["rnnsearch"] = "rnnsearch"
    name: str = "rnnsearch_additive"
    cell: CellName = "gru"
    embedding: Count = 256
    width: Count = 512  # of the decoder's state
    encoder_width: Count = 256  # of each direction: an annotation is twice as wide
    encoder_layers: Count = 1
    decoder_layers: Count = 1
    attention: ScoreName = "additive"  # model/layers/attention_scores.py
    attention_width: Count = 256  # of the additive score's hidden layer
    context: Literal["output", "state", "feeding"] = "output"  # where the attention vector enters, see RNNSearch
    dropout: Part = 0.3
    max_positions: Count = 512  # longest sentence to decode, in tokens with the end of sentence
    tie: Tie = "all"


class RNNSearch(RecurrentTranslation):
    """A bidirectional encoder's annotations, and a decoder that attends to them for every token.

    With y the last token, h the decoder's state, c the attention vector and r the output layer's input:

        output    h_t = f(y_{t-1}, h_{t-1}),            c_t = attend(h_t),      r_t = tanh(W [h_t; c_t])
        state     h_t = f([y_{t-1}; c_t], h_{t-1}),     c_t = attend(h_{t-1}),  r_t = tanh(W [h_t; c_t; y_{t-1}])
        feeding   h_t = f([y_{t-1}; r_{t-1}], h_{t-1}), c_t = attend(h_t),      r_t = tanh(W [h_t; c_t])

    `output` is the lectures' form (Luong et al., section 3.1): no step waits for an attention vector, so the decoder
    processes all T at once under teacher forcing. `state` is Bahdanau's (equations 4 to 6), `feeding` Luong's input
    feeding (section 3.3); both run step by step.
    """

    def __init__(self, config: RNNSearchConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__(
            config.embedding, config.dropout, config.tie, config.max_positions, source_vocabulary, target_vocabulary
        )
        self.config = config
        c, annotation = config, 2 * config.encoder_width
        entering = {"output": 0, "state": annotation, "feeding": c.embedding}[c.context]
        self.encoder = Recurrent(c.cell, c.embedding, c.encoder_width, c.encoder_layers, c.dropout, "both")
        self.decoder = Recurrent(c.cell, c.embedding + entering, c.width, c.decoder_layers, c.dropout)
        states = [c.width] * (c.decoder_layers * CELLS[c.cell].parts)
        self.bridge = packed(nn.Linear(c.encoder_width, sum(states)), states)
        self.score = make_score(c.attention, c.width, annotation, c.attention_width)
        self.readout = nn.Linear(c.width + annotation + (c.embedding if c.context == "state" else 0), c.embedding)
        self._initialise()

    def encode(self, source: Tensor) -> Memory:
        """source (B, S) -> annotations (B, S, A): the forward states beside the backward ones."""
        real = source != PAD  # (B, S)
        annotations, _ = self.encoder(self.embed(self.source_embedding, source), real=real)
        return Memory(self.dropout(annotations), real)

    def start(self, memory: Memory, max_steps: int) -> State:
        """Starts the decoder in tanh(W b_1), with b_1 the backward state at the first token (appendix A.2.2)."""
        annotations = memory.states
        c = self.config
        hidden = torch.tanh(self.bridge(annotations[:, 0, c.encoder_width :])).to(self.bridge.weight.dtype)
        state = {
            "hidden": hidden.view(-1, c.decoder_layers, CELLS[c.cell].parts, c.width),
            "annotations": annotations,
            "keys": self.score.keys(annotations),
            "real": memory.real,
        }
        if c.context == "feeding":
            state["read"] = annotations.new_zeros(len(annotations), 1, c.embedding)
        return state

    def advance(self, x: Tensor, state: State, record: list[Tensor] | None = None) -> tuple[Tensor, State]:
        """x (B, T, E) -> (B, T, E), all at once if the form allows it."""
        if self.config.context == "output":
            hidden, last = self.decoder(x, state["hidden"])
            read = self.read(hidden, self._attend(hidden, state, record))
            return self.dropout(read), {**state, "hidden": last}
        step = self._state_step if self.config.context == "state" else self._feeding_step
        reads: list[Tensor] = []
        weights: list[Tensor] | None = None if record is None else []
        for token in torch.split(x, 1, 1):
            read, state = step(token, state, weights)
            reads.append(read)
        if record is not None and weights:
            record.append(torch.cat(weights, 1))
        return self.dropout(torch.cat(reads, 1)), state

    def attention_maps(self, batch: TranslationBatch) -> dict[str, Tensor]:
        """Returns `decoder.0.cross` (B, 1, T, S): each target token's weights over the source."""
        record: list[Tensor] = []
        self.teach(batch, record)
        return {"decoder.0.cross": record[0][:, None]}

    def _attend(self, query: Tensor, state: State, record: list[Tensor] | None) -> Tensor:
        """query (B, T, W) -> attention vectors (B, T, A)."""
        weights = attention_weights(self.score(query, state["keys"]), state["real"])  # (B, T, S)
        if record is not None:
            record.append(weights)
        return attend(weights, state["annotations"])

    def _state_step(self, y: Tensor, state: State, record: list[Tensor] | None) -> tuple[Tensor, State]:
        """Bahdanau's step: y (B, 1, E) -> (B, 1, E)."""
        context = self._attend(state["hidden"][:, -1, :1], state, record)  # (B, 1, A)
        hidden, last = self.decoder(torch.cat([y, context], 2), state["hidden"])
        return self.read(hidden, context, y), {**state, "hidden": last}

    def _feeding_step(self, y: Tensor, state: State, record: list[Tensor] | None) -> tuple[Tensor, State]:
        """Luong's step with input feeding: y (B, 1, E) -> (B, 1, E)."""
        hidden, last = self.decoder(torch.cat([y, state["read"]], 2), state["hidden"])
        read = self.read(hidden, self._attend(hidden, state, record))
        return read, {**state, "hidden": last, "read": read}


RNNSEARCH = Architecture(RNNSearchConfig, RNNSearch, translation_loss)
