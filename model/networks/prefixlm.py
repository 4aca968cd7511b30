"""Translation by one decoder-only stack that reads source and target as one text (a prefix language model).

    x_1 ... x_S SEP y_1 ... y_T

The source is the prefix: its positions see each other in both directions. From SEP on, every position sees the source,
itself and the earlier target, and predicts the next target token; the loss is on the target only (Liu et al. 2018;
Raffel et al. 2020, section 3.2.1; Dong et al. 2019). SEP takes the place that BOS has in other decoders here.

No source position sees the target. So the source passes the stack first and leaves its keys and values in every layer,
once for all steps, like an encoder's output.

Letters: B batch, S source length, T target length, L layers, H heads, G heads of keys and values, K width of a head,
D width, V vocabulary.
"""

from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from dragoman.model.errors import UserError
from dragoman.model.layers.attention import padding_bias, prefix_bias
from dragoman.model.layers.dropout import Dropout
from dragoman.model.layers.positions import PositionKind, Positions
from dragoman.model.layers.roles import table
from dragoman.model.layers.transformer_layers import (
    Activation,
    EncoderLayer,
    KeysValues,
    NormPlace,
    StackConfig,
    check_layers,
    embed,
    last_norm,
)
from dragoman.model.networks.network import (
    Architecture,
    Memory,
    State,
    TranslationNetwork,
    initialise,
    mean_of_real,
    translation_loss,
)
from dragoman.model.ranges import Count, Part, TwoOrMore
from dragoman.model.settings import Side
from dragoman.model.text.batch import TranslationBatch
from dragoman.model.text.tokenizer import BOS, PAD, SEP


@dataclass
class PrefixConfig(StackConfig):
    """Sizes and switches; the defaults are those of the Transformer's base model, in one stack with as many layers."""

    architecture: Literal["prefixlm"] = "prefixlm"
    name: str = "prefixlm_small"
    width: Count = 512
    heads: Count = 4
    feed_forward: Count = 1024
    layers: Count = 12
    dropout: Part = 0.3
    norm: NormPlace = "post"
    activation: Activation = "relu"
    positions: PositionKind = "sinusoidal"
    max_positions: TwoOrMore = 1024  # tokens of source and target together; each side may use half


class PrefixTranslation(TranslationNetwork):
    """One stack with one table for both languages."""

    def __init__(self, config: PrefixConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        check_layers(config)
        if source_vocabulary != target_vocabulary:
            raise UserError(
                f"model.architecture='prefixlm': source and target are one text in one vocabulary, but theirs have "
                f"{source_vocabulary} and {target_vocabulary} tokens. Set tokenizer.joint=true and shard again"
            )
        self.config = config
        self.max_source_positions = self.max_target_positions = config.max_positions // 2
        self.output = table(nn.Linear(config.width, target_vocabulary, bias=False))
        self.embedding = nn.Embedding(target_vocabulary, config.width, padding_idx=PAD)
        self.positions = Positions(config)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.norm = last_norm(config)
        initialise(self)
        if config.tie:
            self.output.weight = self.embedding.weight

    def forward(self, batch: TranslationBatch) -> Tensor:
        """-> states (B, T, D)."""
        real = batch.source != PAD
        return self._decode(batch.target_in, self._prefix(batch.source, real)[0], real)

    def encode(self, source: Tensor) -> Memory:
        """source (B, S) -> the keys and values of all layers as states (B, S, 2 L G K)."""
        real = source != PAD
        layers, _ = self._prefix(source, real)
        parts = [part.transpose(1, 2).flatten(2) for layer in layers for part in layer]  # each (B, S, GK)
        return Memory(torch.cat(parts, 2), real)

    def start(self, memory: Memory, max_steps: int) -> State:
        """Returns the source's keys and values; those of the target are appended to them."""
        rows, length = memory.real.shape
        state = {"position": memory.real.sum(1), "real": memory.real}
        width = self.config.width // self.config.heads
        parts = memory.states.view(rows, length, 2 * self.config.layers, -1, width).permute(2, 0, 3, 1, 4)
        for i in range(self.config.layers):
            state[f"key.{i}"], state[f"value.{i}"] = parts[2 * i], parts[2 * i + 1]  # (B, G, S, K)
        return state

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """tokens (B,) -> logits (B, V)."""
        state = dict(state)
        at = state["position"][:, None]  # (B, 1)
        state["real"] = torch.cat([state["real"], torch.ones_like(at, dtype=torch.bool)], 1)  # (B, S + t)
        bias = padding_bias(state["real"])
        x = embed(replace_bos(tokens[:, None]), self.embedding, self.positions, self.dropout, at)
        rotation = self.positions.rotation(1, at)
        for i, layer in enumerate(self.layers):
            x, grown = layer(x, (state[f"key.{i}"], state[f"value.{i}"]), bias, rotation=rotation)
            state[f"key.{i}"], state[f"value.{i}"] = grown
        state["position"] = state["position"] + 1
        return self.logits(self.norm(x[:, 0])), state

    def embedding_tables(self) -> dict[Side, nn.Embedding]:
        return {"source": self.embedding, "target": self.embedding}

    def sentence(self, source: Tensor) -> Tensor:
        """source (B, S) -> (B, D): the mean over real tokens of the states below the last layer."""
        real = source != PAD
        return mean_of_real(self._prefix(source, real)[1], real)

    def layer_states(self, ids: Tensor) -> list[Tensor]:
        """ids (B, S) -> the inputs (B, S, D) of all layers; the source has no states after the last."""
        states: list[Tensor] = []
        _, last = self._prefix(ids, ids != PAD, None, states)
        return [*states, last]

    def attention_maps(self, batch: TranslationBatch) -> dict[str, Tensor]:
        """Returns `encoder.0` (B, H, S, S), `decoder.0.self` (B, H, T, T), `decoder.0.cross` (B, H, T, S) and so on.

        A target position has one distribution over the source, the earlier target and itself; `self` and `cross` are
        its two parts. The prefix's last layer has no map, because nothing reads its output.
        """
        prefix_record: list[Tensor] = []
        record: list[Tensor] = []
        real = batch.source != PAD
        self._decode(batch.target_in, self._prefix(batch.source, real, prefix_record)[0], real, record)
        maps = {f"encoder.{i}": weights for i, weights in enumerate(prefix_record)}
        for i, weights in enumerate(record):
            split = real.shape[1]
            maps[f"decoder.{i}.self"], maps[f"decoder.{i}.cross"] = weights[..., split:], weights[..., :split]
        return maps

    def _prefix(
        self, source: Tensor, real: Tensor, record: list[Tensor] | None = None, states: list[Tensor] | None = None
    ) -> tuple[list[KeysValues], Tensor]:
        """source (B, S) -> keys and values of every layer, and the last layer's input (B, S, D).

        `states` gets the other layers' inputs.
        """
        self._check(source.shape[1], "source")
        bias = padding_bias(real)
        x = embed(source, self.embedding, self.positions, self.dropout)
        rotation = self.positions.rotation(source.shape[1])
        layers = []
        for layer in self.layers[:-1]:
            if states is not None:
                states.append(x)
            x, seen = layer(x, None, bias, record, rotation)
            layers.append(seen)
        last = cast("EncoderLayer", self.layers[-1])
        return [*layers, last.memory(x, rotation)], x

    def _decode(
        self, target_in: Tensor, prefix: list[KeysValues], real: Tensor, record: list[Tensor] | None = None
    ) -> Tensor:
        """target_in (B, T) after the prefix -> states (B, T, D)."""
        length = target_in.shape[1]
        self._check(length, "target")
        at = real.sum(1, keepdim=True) + torch.arange(length, device=real.device)  # (B, T)
        bias = prefix_bias(real, length)
        x = embed(replace_bos(target_in), self.embedding, self.positions, self.dropout, at)
        rotation = self.positions.rotation(length, at)
        for layer, past in zip(self.layers, prefix, strict=True):
            x, _ = layer(x, past, bias, record, rotation)
        return self.norm(x)  # type: ignore[no-any-return]  # modules' calls are untyped

    def _check(self, length: int, side: Side) -> None:
        if length > self.max_source_positions:
            raise UserError(
                f"a {side} of {length} tokens is longer than the {self.max_source_positions} that each side has of "
                f"model.max_positions={self.config.max_positions}"
            )


def replace_bos(tokens: Tensor) -> Tensor:
    """Returns target tokens (B, T) with SEP instead of BOS."""
    return tokens.masked_fill(tokens == BOS, SEP)


PREFIXLM = Architecture(PrefixConfig, PrefixTranslation, translation_loss)
