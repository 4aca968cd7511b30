"""The Transformer encoder-decoder (Vaswani et al. 2017).

Letters: B batch, S source length, T target length, H heads, D width, F feed-forward width, V vocabulary.
"""

from dataclasses import dataclass, field
from typing import Literal, cast

import torch
from torch import Tensor, nn

from dragoman.model.errors import UserError
from dragoman.model.layers.attention import CrossAttention, SelfAttention, causal_bias, padding_bias
from dragoman.model.layers.dropout import Dropout
from dragoman.model.layers.positions import PositionKind, Positions
from dragoman.model.layers.roles import table
from dragoman.model.layers.transformer_layers import (
    Activation,
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    NormKind,
    NormPlace,
    Switches,
    check_layers,
    embed,
    last_norm,
)
from dragoman.model.networks.network import (
    Architecture,
    Memory,
    State,
    Tie,
    TranslationNetwork,
    after_prefix,
    initialise,
    translation_loss,
)
from dragoman.model.ranges import Count, Part, Whole
from dragoman.model.text.batch import TranslationBatch
from dragoman.model.text.tokenizer import BOS, PAD


@dataclass
class TransformerConfig(Switches):
    """Sizes and switches; the defaults are the paper's base model."""

    architecture: Literal["transformer"] = "transformer"
    name: str = "transformer_base"
    width: Count = 512
    heads: Count = 8
    feed_forward: Count = 2048
    encoder_layers: Count = 6
    decoder_layers: Count = 6
    dropout: Part = 0.1
    norm: NormPlace = "post"  # normalisation before or after a sublayer
    activation: Activation = "relu"
    positions: PositionKind = "sinusoidal"
    max_positions: Count = 512  # tokens, with the end of sentence
    tie: Tie = "all"  # tables that share the output layer's weights
    norm_kind: NormKind = "layer"
    kv_heads: Whole = 0  # key and value heads, a divisor of `heads`; 0: as many
    attention_dropout: Part | None = None  # dropout of the attention's weights; None: as `dropout`
    activation_dropout: Part | None = None  # dropout of the feed-forward layers' inner states; None: as `dropout`
    output_bias: bool = False  # a bias for each token of the vocabulary
    zero_outputs: bool = False  # the last product of each sublayer begins at zero: at first a layer changes nothing
    source_prefix: list[Whole] = field(default_factory=list)  # ids before every source: its language or a task
    target_prefix: list[Whole] = field(default_factory=list)  # ids between BOS and every target: its language


class Transformer(TranslationNetwork):
    """Encoder and decoder stacks with one, two or three embedding tables."""

    def __init__(self, config: TransformerConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        check_layers(config)
        if config.norm_kind == "batch":
            raise UserError("model.norm_kind=batch: for networks of one stack. Choices for a Transformer: layer, rms")
        check_prefixes(config, source_vocabulary, target_vocabulary)
        self.config = config
        self.max_source_positions = config.max_positions - len(config.source_prefix)
        self.max_target_positions = config.max_positions - len(config.target_prefix)
        self.output = table(nn.Linear(config.width, target_vocabulary, bias=config.output_bias))
        self.make_tables(config.tie, config.width, source_vocabulary, target_vocabulary)
        self.source_positions = Positions(config)
        self.target_positions = Positions(config)
        self.dropout = Dropout(config.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.encoder_norm = last_norm(config)
        self.decoder_norm = last_norm(config)
        initialise(self)
        if config.zero_outputs:
            for module in self.modules():
                if isinstance(module, SelfAttention | CrossAttention):
                    nn.init.zeros_(module.out.weight)
                elif isinstance(module, FeedForward):
                    nn.init.zeros_(module.outer.weight)
        if config.tie in ("all", "target"):
            self.output.weight = self.target_embedding.weight

    def forward(self, batch: TranslationBatch) -> Tensor:
        """-> states (B, T, D)."""
        memory = self.encode(batch.source)
        return self._decode(batch.target_in, memory, record=None)

    def encode(self, source: Tensor) -> Memory:
        """source (B, S) -> states (B, S, D)."""
        return self._encode(source, record=None)

    def layer_states(self, ids: Tensor) -> list[Tensor]:
        """ids (B, S) -> the encoder's 1 + L states (B, S, D)."""
        states: list[Tensor] = []
        memory = self._encode(ids, None, states)
        before = len(self.config.source_prefix)
        return [state[:, before:] for state in (*states, memory.states)]

    def start(self, memory: Memory, max_steps: int) -> State:
        """Returns the source's keys and values for every layer; the target is still empty, but for its prefix."""
        batch = len(memory.states)
        state = {
            "position": torch.zeros(batch, dtype=torch.int64, device=memory.states.device),
            "source_real": memory.real,
        }
        for i, layer in enumerate(self.decoder_layers):
            state[f"source_key.{i}"], state[f"source_value.{i}"] = layer.cross_attention.memory(memory.states)
        for token in [BOS, *self.config.target_prefix][:-1]:  # the last one is read in the place of BOS
            _, state = self._advance(torch.full_like(state["position"], token), state)
        return state

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (B,) -> logits (B, V)."""
        if self.config.target_prefix:
            tokens = tokens.masked_fill(tokens == BOS, self.config.target_prefix[-1])
        states, state = self._advance(tokens, state)
        return self.logits(states), state

    def _advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (B,) -> states (B, D), and the state grown by one position."""
        state = dict(state)
        bias = padding_bias(state["source_real"])
        at = state["position"][:, None]  # (B, 1)
        x = embed(tokens[:, None], self.target_embedding, self.target_positions, self.dropout, at)
        rotation = self.target_positions.rotation(1, at)
        for i, layer in enumerate(self.decoder_layers):
            past = (state[f"key.{i}"], state[f"value.{i}"]) if f"key.{i}" in state else None
            memory = (state[f"source_key.{i}"], state[f"source_value.{i}"])
            x, (state[f"key.{i}"], state[f"value.{i}"]) = layer.step(x, past, memory, bias, rotation)
        state["position"] = state["position"] + 1
        return self.decoder_norm(x[:, 0]), state

    def attention_maps(self, batch: TranslationBatch) -> dict[str, Tensor]:
        """Returns `encoder.0` (B, H, S, S), `decoder.0.self` (B, H, T, T), `decoder.0.cross` (B, H, T, S) and so on."""
        encoder_record: list[Tensor] = []
        decoder_record: list[Tensor] = []
        self._decode(batch.target_in, self._encode(batch.source, encoder_record), decoder_record)
        source, target = len(self.config.source_prefix), len(self.config.target_prefix)
        maps = {f"encoder.{i}": weights[..., source:, source:] for i, weights in enumerate(encoder_record)}
        for i in range(len(self.decoder)):
            own, cross = decoder_record[2 * i : 2 * i + 2]
            maps[f"decoder.{i}.self"], maps[f"decoder.{i}.cross"] = own[..., target:, target:], cross[..., source:]
        return maps

    @property
    def decoder_layers(self) -> "list[DecoderLayer]":
        """Returns `decoder` with its type, which nn.ModuleList loses."""
        return cast("list[DecoderLayer]", list(self.decoder))

    def _encode(self, source: Tensor, record: list[Tensor] | None, states: list[Tensor] | None = None) -> Memory:
        """`states` gets each layer's input."""
        source = after_prefix(self.config.source_prefix, source)
        real = source != PAD  # (B, S)
        bias = padding_bias(real)
        x = embed(source, self.source_embedding, self.source_positions, self.dropout)
        rotation = self.source_positions.rotation(source.shape[1])
        for layer in self.encoder:
            if states is not None:
                states.append(x)
            x, _ = layer(x, None, bias, record, rotation)
        return Memory(self.encoder_norm(x), real)

    def _decode(self, target_in: Tensor, memory: Memory, record: list[Tensor] | None) -> Tensor:
        """target_in (B, T) -> states (B, T, D); a prefix stands between BOS and the rest, and has no states here."""
        prefix = self.config.target_prefix
        if prefix:
            target_in = torch.cat([target_in[:, :1], after_prefix(prefix, target_in[:, 1:])], 1)
        # Padding follows the real tokens, so the causal mask alone hides it from every real position.
        causal = causal_bias(target_in.shape[1], target_in.device)
        source_bias = padding_bias(memory.real)
        x = embed(target_in, self.target_embedding, self.target_positions, self.dropout)
        rotation = self.target_positions.rotation(target_in.shape[1])
        for layer in self.decoder_layers:
            x = layer(x, causal, layer.cross_attention.memory(memory.states), source_bias, record, rotation)
        return self.decoder_norm(x[:, len(prefix) :])  # type: ignore[no-any-return]  # modules' calls are untyped


def check_prefixes(config: TransformerConfig, source_vocabulary: int, target_vocabulary: int) -> None:
    """Refuses prefixes that do not fit the network."""
    for key, ids, vocabulary in (
        ("source_prefix", config.source_prefix, source_vocabulary),
        ("target_prefix", config.target_prefix, target_vocabulary),
    ):
        if any(not 0 < token < vocabulary for token in ids):
            raise UserError(f"model.{key}={ids}: ids must be above 0 and below the vocabulary of {vocabulary}")
        if len(ids) >= config.max_positions - 1:
            raise UserError(f"model.{key}: {len(ids)} ids leave no room in model.max_positions={config.max_positions}")


TRANSFORMER = Architecture(TransformerConfig, Transformer, translation_loss)
