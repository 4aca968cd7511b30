"""The recurrent encoder-decoder with a fixed context (Sutskever et al. 2014; Cho et al. 2014).

Letters: B batch, S source length, T target length, E embedding width, W width of a state, L layers, P parts of a state
(1; LSTM 2: hidden state and cell), V vocabulary.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from dragoman.model.layers.cells import CellName
from dragoman.model.layers.recurrent import Recurrent
from dragoman.model.networks.network import Architecture, Memory, State, Tie, translation_loss
from dragoman.model.networks.recurrent_translation import RecurrentTranslation
from dragoman.model.ranges import Count, Part
from dragoman.model.text.tokenizer import PAD


@dataclass
class EncoderDecoderConfig:
    """Sizes and switches; the defaults are Sutskever's model, at a size for small corpora."""

    architecture: Literal["rnnenc"] = "rnnenc"
    name: str = "rnnenc"
    cell: CellName = "lstm"
    embedding: Count = 256
    width: Count = 512  # of each layer's state; the context is all layers' last states
    layers: Count = 1  # of the encoder, and of the decoder
    dropout: Part = 0.3
    reverse_source: bool = False  # read from the last real token to the first (Sutskever et al., section 3.3)
    feed_context: bool = True  # feed the context into every step and the readout (Cho et al., section 2.2)
    max_positions: Count = 512  # longest sentence to decode, in tokens with the end of sentence
    tie: Tie = "all"


class EncoderDecoder(RecurrentTranslation):
    """One recurrent network reads the source into its last state, another writes the target from it.

    Whatever the source's length, the memory is L x P vectors of width W: `encode` returns them as `Memory.states`
    (B, LP, W), all real.
    """

    def __init__(self, config: EncoderDecoderConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__(
            config.embedding, config.dropout, config.tie, config.max_positions, source_vocabulary, target_vocabulary
        )
        self.config = config
        c, fed = config, config.width if config.feed_context else 0
        direction: Literal["forward", "backward"] = "backward" if c.reverse_source else "forward"
        self.encoder = Recurrent(c.cell, c.embedding, c.width, c.layers, c.dropout, direction)
        self.decoder = Recurrent(c.cell, c.embedding + fed, c.width, c.layers, c.dropout)
        self.readout = torch.nn.Linear(c.width + fed, c.embedding)
        self._initialise()

    def encode(self, source: Tensor) -> Memory:
        """source (B, S) -> every layer's state after the last token read, (B, LP, W)."""
        _, last = self.encoder(self.embed(self.source_embedding, source), real=source != PAD)  # (B, L, P, W)
        states = last.flatten(1, 2)
        return Memory(states, torch.ones(states.shape[:2], dtype=torch.bool, device=states.device))

    def sentence(self, source: Tensor) -> Tensor:
        """source (B, S) -> (B, LPW): everything that the decoder gets (Sutskever et al., figure 2)."""
        return self.encode(source).states.flatten(1).float()

    def start(self, memory: Memory, max_steps: int) -> State:
        """Starts the decoder in the encoder's last state, layer by layer."""
        parts = memory.states.shape[1] // self.config.layers
        hidden = memory.states.view(-1, self.config.layers, parts, self.config.width)
        return {"hidden": hidden, "context": hidden[:, -1, 0]}

    def advance(self, x: Tensor, state: State, record: list[Tensor] | None = None) -> tuple[Tensor, State]:
        """x (B, T, E) -> (B, T, E): h_t = f([y_{t-1}; c], h_{t-1}), read as tanh(W [h_t; c]); c only if it is fed."""
        if not self.config.feed_context:
            hidden, last = self.decoder(x, state["hidden"])
            return self.dropout(self.read(self.dropout(hidden))), {**state, "hidden": last}
        context = state["context"][:, None].expand(-1, x.shape[1], -1)  # (B, T, W)
        hidden, last = self.decoder(torch.cat([x, context.to(x.dtype)], 2), state["hidden"])
        return self.dropout(self.read(self.dropout(hidden), context)), {**state, "hidden": last}


RNNENC = Architecture(EncoderDecoderConfig, EncoderDecoder, translation_loss)
