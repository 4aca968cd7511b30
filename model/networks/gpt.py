"""The decoder-only Transformer as a language model (Radford et al. 2018 and 2019, GPT).

A stack of self-attention layers under a causal mask: every position predicts the next token from itself and all
earlier ones. The defaults are GPT-2's; the switches are those of model/layers/transformer_layers.py.

Letters: B rows, T positions, P positions before them, H heads, G heads of keys and values, K width of a head, D width,
V vocabulary.
"""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from dragoman.model.errors import UserError
from dragoman.model.layers.attention import causal_bias
from dragoman.model.layers.dropout import Dropout
from dragoman.model.layers.losses import NEVER
from dragoman.model.layers.positions import Positions
from dragoman.model.layers.roles import table
from dragoman.model.layers.transformer_layers import EncoderLayer, StackConfig, check_layers, embed, last_norm
from dragoman.model.networks.language_network import LanguageNetwork, language_loss, one_vocabulary
from dragoman.model.networks.network import Architecture, State, initialise
from dragoman.model.ranges import Count, Whole
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import PAD


@dataclass
class DecoderOnlyConfig(StackConfig):
    """Sizes and switches; the defaults are GPT-2's smallest model."""

    architecture: Literal["gpt"] = "gpt"
    name: str = "gpt_small"
    max_positions: Count = 1024  # tokens that the network sees at a time
    absent: list[Whole] = field(default_factory=list)  # ids that no text has, such as an imported model's <pad>


class DecoderOnly(LanguageNetwork):
    """One stack with one table. No state passes between batches: a window sees only itself."""

    def __init__(self, config: DecoderOnlyConfig, vocabulary: int) -> None:
        super().__init__()
        check_layers(config)
        self.config = config
        self.max_positions = config.max_positions
        self.output = table(nn.Linear(config.width, vocabulary, bias=bool(config.absent)))
        self.embedding = nn.Embedding(vocabulary, config.width, padding_idx=PAD)
        self.positions = Positions(config)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.norm = last_norm(config)
        initialise(self)
        if config.absent:
            self.output.bias.requires_grad_(False)[config.absent] = NEVER
        if config.tie:
            self.output.weight = self.embedding.weight

    def forward(self, batch: TextBatch) -> Tensor:
        """-> states (B, T, D). Padding follows the real tokens, so the causal mask alone hides it."""
        return self._advance(batch.inputs, {})

    def start(self, rows: int, device: torch.device) -> State:
        """Returns an empty state: keys and values come with the first token."""
        return {}

    def read(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (B, T), all in one pass -> logits (B, V) of the token after the last."""
        state = dict(state)
        states = self._advance(tokens, state)
        return self.logits(states[:, -1]), state

    def layer_states(self, ids: Tensor) -> list[Tensor]:
        """ids (B, T) -> 1 + L states (B, T, D)."""
        states: list[Tensor] = []
        last = self._advance(ids, {}, None, states)
        return [*states, last]

    def attention_maps(self, batch: TextBatch) -> dict[str, Tensor]:
        """Returns `decoder.0.self` (B, H, T, T) and so on: each position's weights on itself and earlier ones."""
        record: list[Tensor] = []
        self._advance(batch.inputs, {}, record)
        return {f"decoder.{i}.self": weights for i, weights in enumerate(record)}

    def _advance(
        self, tokens: Tensor, state: State, record: list[Tensor] | None = None, states: list[Tensor] | None = None
    ) -> Tensor:
        """tokens (B, T) after those of `state` -> their states (B, T, D); adds their keys and values to `state`.

        `states` gets each layer's input.
        """
        length = tokens.shape[1]
        past = state["key.0"].shape[2] if "key.0" in state else 0
        if past + length > self.config.max_positions:
            raise UserError(
                f"a text of {past + length} tokens is longer than model.max_positions={self.config.max_positions}"
            )
        at = torch.arange(past, past + length, device=tokens.device)[None] if past else None  # (1, T)
        bias = causal_bias(length, tokens.device, past) if length > 1 else None
        rotation = self.positions.rotation(length, at)
        x = embed(tokens, self.embedding, self.positions, self.dropout, at)
        for i, layer in enumerate(self.layers):
            if states is not None:
                states.append(x)
            before = (state[f"key.{i}"], state[f"value.{i}"]) if past else None
            x, grown = layer(x, before, bias, record, rotation, causal=past == 0 and length > 1)
            state[f"key.{i}"], state[f"value.{i}"] = grown  # (B, G, P + T, K)
        return self.norm(x)  # type: ignore[no-any-return]  # modules' calls are untyped


GPT = Architecture(DecoderOnlyConfig, one_vocabulary(DecoderOnly), language_loss, "language")
