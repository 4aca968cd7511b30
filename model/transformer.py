"""The Transformer encoder-decoder (Vaswani et al. 2017).

Letters: B batch, S source length, T target length, H heads, D width, F feed-forward width, V vocabulary.
"""

import math
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from model.attention import CrossAttention, SelfAttention, causal_bias, padding_bias
from model.batch import TranslationBatch
from model.dropout import Dropout
from model.errors import UserError
from model.network import Memory, Side, State, TranslationNetwork
from model.tokenizer import PAD


@dataclass
class TransformerConfig:
    """Sizes and switches; the defaults are the paper's base model."""

    architecture: Literal["transformer"] = "transformer"
    name: str = "transformer_base"
    width: int = 512
    heads: int = 8
    feed_forward: int = 2048
    encoder_layers: int = 6
    decoder_layers: int = 6
    dropout: float = 0.1
    norm: Literal["pre", "post"] = "post"  # where layer normalisation stands: before or after a sublayer
    activation: Literal["relu", "gelu"] = "relu"
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    max_positions: int = 512  # tokens, end of sentence included
    tie: Literal["all", "target", "none"] = "all"  # which tables share the output layer's weights


class Transformer(TranslationNetwork):
    """Encoder and decoder stacks around one, two or three embedding tables.

    Raises:
        UserError: sizes that do not fit each other (heads that do not divide the width, tied tables of two sizes).
    """

    def __init__(self, config: TransformerConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        if config.width % config.heads:
            raise UserError(f"model.heads={config.heads}: must divide model.width={config.width}")
        if config.positions == "sinusoidal" and config.width % 2:
            raise UserError(f"model.width={config.width}: sinusoidal positions come in pairs; choose an even width")
        if config.tie == "all" and source_vocabulary != target_vocabulary:
            raise UserError(
                f"model.tie='all': source and target vocabularies differ ({source_vocabulary} and {target_vocabulary} "
                f"tokens). Choices: tokenizer.joint=true, model.tie=target, model.tie=none"
            )
        self.config = config
        self.max_source_positions = self.max_target_positions = config.max_positions
        self.output = nn.Linear(config.width, target_vocabulary, bias=False)
        self.target_embedding = nn.Embedding(target_vocabulary, config.width, padding_idx=PAD)
        if config.tie == "all":
            self.source_embedding = self.target_embedding
        else:
            self.source_embedding = nn.Embedding(source_vocabulary, config.width, padding_idx=PAD)
        self.source_positions = Positions(config)
        self.target_positions = Positions(config)
        self.dropout = Dropout(config.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.encoder_norm = nn.LayerNorm(config.width) if config.norm == "pre" else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.width) if config.norm == "pre" else nn.Identity()
        self._initialise()
        if config.tie != "none":
            self.output.weight = self.target_embedding.weight

    def _initialise(self) -> None:
        """Glorot for products; N(0, 1/D) for tables, which the sqrt(D) of `_embed` brings to unit variance."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.width**-0.5)
                if module.padding_idx is not None:
                    nn.init.zeros_(module.weight[module.padding_idx])

    def forward(self, batch: TranslationBatch) -> Tensor:
        """-> states (B, T, D)."""
        memory = self.encode(batch.source)
        return self._decode(batch.target_in, memory, record=None)

    def encode(self, source: Tensor) -> Memory:
        """source (B, S) -> states (B, S, D)."""
        return self._encode(source, record=None)

    def start(self, memory: Memory, max_steps: int) -> State:
        """Keys and values of the source for every layer; nothing of the target yet."""
        batch = len(memory.states)
        state = {
            "position": torch.zeros(batch, dtype=torch.int64, device=memory.states.device),
            "source_real": memory.real,
        }
        for i, layer in enumerate(self.decoder_layers):
            state[f"source_key.{i}"], state[f"source_value.{i}"] = layer.cross_attention.memory(memory.states)
        return state

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (B,) -> logits (B, V)."""
        state = dict(state)
        bias = padding_bias(state["source_real"])
        x = self._embed(self.target_embedding, tokens[:, None], self.target_positions, state["position"][:, None])
        for i, layer in enumerate(self.decoder_layers):
            past = (state[f"key.{i}"], state[f"value.{i}"]) if f"key.{i}" in state else None
            memory = (state[f"source_key.{i}"], state[f"source_value.{i}"])
            x, (state[f"key.{i}"], state[f"value.{i}"]) = layer.step(x, past, memory, bias)
        state["position"] = state["position"] + 1
        return self.logits(self.decoder_norm(x[:, 0])), state

    def embedding_tables(self) -> dict[Side, nn.Embedding]:
        """With tie=all they are one; with tie=all and tie=target the target's weights are the output layer's too."""
        return {"source": self.source_embedding, "target": self.target_embedding}

    def attention_maps(self, batch: TranslationBatch) -> dict[str, Tensor]:
        """`encoder.0` (B, H, S, S), `decoder.0.self` (B, H, T, T), `decoder.0.cross` (B, H, T, S) and so on."""
        encoder_record: list[Tensor] = []
        decoder_record: list[Tensor] = []
        self._decode(batch.target_in, self._encode(batch.source, encoder_record), decoder_record)
        maps = {f"encoder.{i}": weights for i, weights in enumerate(encoder_record)}
        for i in range(len(self.decoder)):
            maps[f"decoder.{i}.self"], maps[f"decoder.{i}.cross"] = decoder_record[2 * i : 2 * i + 2]
        return maps

    @property
    def decoder_layers(self) -> "list[DecoderLayer]":
        """`decoder` with its type, which nn.ModuleList forgets."""
        return cast("list[DecoderLayer]", list(self.decoder))

    def _encode(self, source: Tensor, record: list[Tensor] | None) -> Memory:
        real = source != PAD  # (B, S)
        bias = padding_bias(real)
        x = self._embed(self.source_embedding, source, self.source_positions, None)
        for layer in self.encoder:
            x = layer(x, bias, record)
        return Memory(self.encoder_norm(x), real)

    def _decode(self, target_in: Tensor, memory: Memory, record: list[Tensor] | None) -> Tensor:
        # Padding stands after the real tokens, so the look-ahead mask alone hides it from every real position.
        causal = causal_bias(target_in.shape[1], target_in.device)
        source_bias = padding_bias(memory.real)
        x = self._embed(self.target_embedding, target_in, self.target_positions, None)
        for layer in self.decoder_layers:
            x = layer(x, causal, layer.cross_attention.memory(memory.states), source_bias, record)
        return self.decoder_norm(x)  # type: ignore[no-any-return]

    def _embed(self, table: nn.Embedding, ids: Tensor, positions: "Positions", at: Tensor | None) -> Tensor:
        length = ids.shape[1]
        if length > self.config.max_positions:
            raise UserError(
                f"a sequence of {length} tokens is longer than model.max_positions={self.config.max_positions}"
            )
        x = table(ids) * math.sqrt(self.config.width) + positions(length, at)
        if torch.is_autocast_enabled(x.device.type):  # the residual stream too: every product would cast it again
            x = x.to(torch.get_autocast_dtype(x.device.type))
        return self.dropout(x)  # type: ignore[no-any-return]


class Positions(nn.Module):
    """PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos of the same (section 3.5), or a learned table."""

    table: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        if config.positions == "learned":
            self.table = nn.Parameter(torch.randn(config.max_positions, config.width) * config.width**-0.5)
        else:
            self.register_buffer("table", sinusoids(config.max_positions, config.width), persistent=False)

    def forward(self, length: int, at: Tensor | None) -> Tensor:
        """The first `length` rows (T, D), or the rows `at` (B, 1) -> (B, 1, D)."""
        return self.table[:length] if at is None else self.table[at]


def sinusoids(length: int, width: int) -> Tensor:
    """(length, width) in float32, computed in float64."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    rate = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.stack([(position * rate).sin(), (position * rate).cos()], -1).flatten(1).float()


class Sublayer(nn.Module):
    """Residual connection, dropout and layer normalisation around a function, in pre- or post-norm order."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.dropout = Dropout(config.dropout)
        self.pre = config.norm == "pre"

    def before(self, x: Tensor) -> Tensor:
        return self.norm(x) if self.pre else x

    def after(self, x: Tensor, change: Tensor) -> Tensor:
        x = self.dropout.add(x, change)
        return x if self.pre else self.norm(x)


class FeedForward(nn.Module):
    """W2 f(W1 x) (section 3.3)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.width, config.feed_forward)
        self.outer = nn.Linear(config.feed_forward, config.width)
        self.activation = nn.functional.relu if config.activation == "relu" else nn.functional.gelu
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., D)."""
        return self.outer(self.dropout(self.activation(self.inner(x))))  # type: ignore[no-any-return]


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config.width, config.heads, config.dropout)
        self.self_sublayer = Sublayer(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_sublayer = Sublayer(config)

    def forward(self, x: Tensor, bias: Tensor | None, record: list[Tensor] | None) -> Tensor:
        """x (B, S, D) -> (B, S, D)."""
        x = self.self_sublayer.after(x, self.self_attention(self.self_sublayer.before(x), bias, record))
        return self.feed_forward_sublayer.after(x, self.feed_forward(self.feed_forward_sublayer.before(x)))


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the source, feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config.width, config.heads, config.dropout)
        self.self_sublayer = Sublayer(config)
        self.cross_attention = CrossAttention(config.width, config.heads, config.dropout)
        self.cross_sublayer = Sublayer(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_sublayer = Sublayer(config)

    def forward(
        self,
        x: Tensor,
        causal: Tensor,
        memory: tuple[Tensor, Tensor],
        source_bias: Tensor | None,
        record: list[Tensor] | None,
    ) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        x = self.self_sublayer.after(x, self.self_attention(self.self_sublayer.before(x), causal, record))
        return self._rest(x, memory, source_bias, record)

    def step(
        self, x: Tensor, past: tuple[Tensor, Tensor] | None, memory: tuple[Tensor, Tensor], source_bias: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """x (B, 1, D), one position after `past`."""
        change, grown = self.self_attention.step(self.self_sublayer.before(x), past)
        return self._rest(self.self_sublayer.after(x, change), memory, source_bias, None), grown

    def _rest(
        self, x: Tensor, memory: tuple[Tensor, Tensor], source_bias: Tensor | None, record: list[Tensor] | None
    ) -> Tensor:
        seen = self.cross_attention(self.cross_sublayer.before(x), memory, source_bias, record)
        x = self.cross_sublayer.after(x, seen)
        return self.feed_forward_sublayer.after(x, self.feed_forward(self.feed_forward_sublayer.before(x)))
