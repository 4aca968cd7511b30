"""The layers of every Transformer here: encoder-decoder, decoder-only, encoder-only.

Letters: B batch, S source length, T target length, H heads, K width of a head, D width, F feed-forward width.

The defaults of the configurations are those of the papers. The switches beyond Vaswani et al. 2017:

    norm_kind=rms        RMSNorm (Zhang and Sennrich 2019) instead of layer normalisation
    norm_kind=batch      BatchNorm (Ioffe and Szegedy 2015), to see why text wants another: docs/beside-softmax.md
    activation=swiglu    a gated feed-forward layer (Shazeer 2020)
    activation=silu      x sigmoid(x) (Elfwing et al. 2017), Marian's "swish"; gelu_tanh: GPT-2's approximation of GELU
    positions=rotary     queries and keys rotated by their position (model/layers/positions.py)
    kv_heads             fewer heads for keys and values than for queries (model/layers/attention.py)
    attention_dropout    dropout of the attention's weights, apart from that of embeddings and residuals
    activation_dropout   dropout of the feed-forward layer's inner states, likewise
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from dragoman.model.errors import UserError
from dragoman.model.layers.attention import CrossAttention, SelfAttention
from dragoman.model.layers.dropout import Dropout
from dragoman.model.layers.positions import PositionConfig, PositionKind, Positions
from dragoman.model.layers.products import Product
from dragoman.model.layers.roles import packed
from dragoman.model.ranges import Count, Part, Positive, Whole, check_ranges

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"]
NormPlace = Literal["pre", "post"]
NormKind = Literal["layer", "rms", "batch"]
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": nn.functional.relu,
    "gelu": nn.functional.gelu,
    "gelu_tanh": partial(nn.functional.gelu, approximate="tanh"),
    "silu": nn.functional.silu,
    "swiglu": nn.functional.silu,
}
KeysValues: TypeAlias = tuple[Tensor, Tensor]  # of a layer, each (B, G, S, K)


class BlockConfig(Protocol):
    """The settings of residual connections, normalisation and feed-forward layers."""

    width: int
    feed_forward: int
    dropout: float
    norm: NormPlace
    norm_kind: NormKind
    norm_epsilon: float | None
    activation: Activation
    activation_dropout: float | None


class LayerConfig(BlockConfig, PositionConfig, Protocol):
    """The settings that the layers read."""

    kv_heads: int
    attention_dropout: float | None


@dataclass(kw_only=True)
class Switches:
    """Switches of every Transformer here that only other programs' networks change."""

    norm_epsilon: Positive | None = None  # added to a normalisation's variance; None: 1e-5, rms 1e-6
    scale_table: bool = True  # table rows times the root of the width; false: as they are (BERT, GPT-2, Llama)
    embedding_norm: bool = False  # a layer normalisation of table and positions (BERT, BART)
    rotary_base: Positive = 10000.0  # positions=rotary: of the angles


@dataclass
class StackConfig(Switches):
    """Sizes and switches of a network of one stack and one table; the defaults are GPT-2's smallest model."""

    architecture: str
    name: str
    width: Count = 768
    heads: Count = 12
    feed_forward: Count = 3072
    layers: Count = 12
    dropout: Part = 0.1
    norm: NormPlace = "pre"
    norm_kind: NormKind = "layer"
    activation: Activation = "gelu"
    positions: PositionKind = "learned"
    max_positions: Count = 1024
    kv_heads: Whole = 0  # key and value heads, a divisor of `heads`; 0: as many
    tie: bool = True  # the output layer's weights are the embedding table's
    attention_dropout: Part | None = None  # dropout of the attention's weights; None: as `dropout`
    activation_dropout: Part | None = None  # dropout of the feed-forward layers' inner states; None: as `dropout`


def attention_dropout(config: LayerConfig) -> float:
    """Returns the dropout of the attention's weights."""
    return config.dropout if config.attention_dropout is None else config.attention_dropout


def activation_dropout(config: BlockConfig) -> float:
    """Returns the dropout of the feed-forward layers' inner states."""
    return config.dropout if config.activation_dropout is None else config.activation_dropout


def check_layers(config: LayerConfig) -> None:
    """Refuses sizes that do not fit each other."""
    if config.heads < 1 or config.width % config.heads:
        raise UserError(f"model.heads={config.heads}: must divide model.width={config.width}")
    if config.kv_heads < 0 or config.heads % (config.kv_heads or config.heads):
        choices = ", ".join(str(count) for count in range(1, config.heads + 1) if config.heads % count == 0)
        raise UserError(
            f"model.kv_heads={config.kv_heads}: must divide model.heads={config.heads}. "
            f"Choices: {choices}, or 0 for as many as heads"
        )
    if config.positions == "sinusoidal" and config.width % 2:
        raise UserError(f"model.width={config.width}: sinusoidal positions come in pairs; choose an even width")
    if config.positions == "rotary" and config.width // config.heads % 2:
        raise UserError(
            f"model.positions=rotary: turns pairs of numbers, but a head has {config.width // config.heads} "
            f"(model.width={config.width}, model.heads={config.heads}); choose an even width of a head"
        )
    check_ranges("model", config)


def embed(ids: Tensor, table: nn.Embedding, positions: Positions, dropout: Dropout, at: Tensor | None = None) -> Tensor:
    """ids (B, T) -> (B, T, D), the first layer's input. `at` (B, T): their positions, if they are not 0 to T - 1."""
    if ids.shape[1] > positions.limit:
        raise UserError(f"a sequence of {ids.shape[1]} tokens is longer than model.max_positions={positions.limit}")
    x = positions.add(table(ids) * positions.scale, at)
    if torch.is_autocast_enabled(x.device.type):  # cast the residual stream once; else every product casts it again
        x = x.to(torch.get_autocast_dtype(x.device.type))
    return dropout(x)  # type: ignore[no-any-return]  # modules' calls are untyped


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) times one weight per column (Zhang and Sennrich 2019, equation 4)."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., D), in x's type."""
        return nn.functional.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)


class BatchNorm(nn.Module):
    """Normalises every column over all positions of the batch, padding included (Ioffe and Szegedy 2015).

    Evaluation uses running means and variances, which are saved with the weights.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., D), in x's type; a batch of one position has no variance and uses the running one."""
        flat = x.flatten(0, -2).to(self.weight.dtype)  # (BT, D)
        fresh = self.training and len(flat) > 1
        values = self.mean, self.variance, self.weight, self.bias, fresh, self.momentum, self.eps
        return nn.functional.batch_norm(flat, *values).view(x.shape).to(x.dtype)


def make_norm(config: BlockConfig) -> nn.Module:
    """Returns the normalisation that the configuration names."""
    kinds: dict[NormKind, Callable[..., nn.Module]] = {"rms": RMSNorm, "batch": BatchNorm, "layer": nn.LayerNorm}
    return kinds[config.norm_kind](config.width, **({} if (eps := config.norm_epsilon) is None else {"eps": eps}))


def last_norm(config: BlockConfig) -> nn.Module:
    """Returns the last module of a stack: a normalisation after pre-norm layers, which leave their sum unnormalised."""
    return make_norm(config) if config.norm == "pre" else nn.Identity()


class Sublayer(nn.Module):
    """Residual connection, dropout and normalisation around a function, in pre- or post-norm order."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.norm = make_norm(config)
        self.dropout = Dropout(config.dropout)
        self.pre = config.norm == "pre"

    def before(self, x: Tensor) -> Tensor:
        return self.norm(x) if self.pre else x

    def after(self, x: Tensor, change: Tensor) -> Tensor:
        x = self.dropout.add(x, change)
        return x if self.pre else self.norm(x)


class FeedForward(nn.Module):
    """W2 f(W1 x) (section 3.3), or gated W2 (f(W1 x) * V x), whose `inner` is W1 above V in one product.

    The gate adds half as many parameters; two thirds of the feed-forward width compensate for it (Shazeer 2020).
    """

    low_rank_target = "feed_forward"  # its name in train.lora.targets

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.gated = config.activation == "swiglu"
        parts = [config.feed_forward] * (2 if self.gated else 1)
        self.inner = packed(Product(config.width, sum(parts)), parts)
        self.outer = Product(config.feed_forward, config.width)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = Dropout(activation_dropout(config))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., D)."""
        inner = self.inner(x)
        if self.gated:
            activated, gate = inner.chunk(2, -1)
            inner = self.activation(activated) * gate
        else:
            inner = self.activation(inner)
        return self.outer(self.dropout(inner))  # type: ignore[no-any-return]  # modules' calls are untyped


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward: for encoders, and with a causal mask for decoder-only networks."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config.width, config.heads, attention_dropout(config), config.kv_heads)
        self.self_sublayer = Sublayer(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_sublayer = Sublayer(config)

    def forward(
        self,
        x: Tensor,
        past: KeysValues | None,
        bias: Tensor | None = None,
        record: list[Tensor] | None = None,
        rotation: Tensor | None = None,
        causal: bool = False,
    ) -> tuple[Tensor, KeysValues]:
        """x (B, T, D), T positions after `past` -> (B, T, D), and the keys and values grown by T."""
        change, grown = self.self_attention(self.self_sublayer.before(x), past, bias, record, rotation, causal)
        x = self.self_sublayer.after(x, change)
        return self.feed_forward_sublayer.after(x, self.feed_forward(self.feed_forward_sublayer.before(x))), grown

    def memory(self, x: Tensor, rotation: Tensor | None) -> KeysValues:
        """Returns the keys and values that `forward` would compute for x (B, S, D), and nothing else."""
        _, k, v = self.self_attention.project(self.self_sublayer.before(x), rotation)
        return k, v


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the source, feed-forward."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config.width, config.heads, attention_dropout(config), config.kv_heads)
        self.self_sublayer = Sublayer(config)
        self.cross_attention = CrossAttention(config.width, config.heads, attention_dropout(config), config.kv_heads)
        self.cross_sublayer = Sublayer(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_sublayer = Sublayer(config)

    def forward(
        self,
        x: Tensor,
        causal: Tensor,
        memory: KeysValues,
        source_bias: Tensor | None,
        record: list[Tensor] | None = None,
        rotation: Tensor | None = None,
    ) -> Tensor:
        """x (B, T, D) -> (B, T, D); `causal` is `causal_bias`."""
        change, _ = self.self_attention(self.self_sublayer.before(x), None, causal, record, rotation, causal=True)
        return self._rest(self.self_sublayer.after(x, change), memory, source_bias, record)

    def step(
        self,
        x: Tensor,
        past: KeysValues | None,
        memory: KeysValues,
        source_bias: Tensor | None,
        rotation: Tensor | None = None,
    ) -> tuple[Tensor, KeysValues]:
        """x (B, 1, D), one position after `past`."""
        change, grown = self.self_attention(self.self_sublayer.before(x), past, rotation=rotation)
        return self._rest(self.self_sublayer.after(x, change), memory, source_bias, None), grown

    def _rest(self, x: Tensor, memory: KeysValues, source_bias: Tensor | None, record: list[Tensor] | None) -> Tensor:
        seen = self.cross_attention(self.cross_sublayer.before(x), memory, source_bias, record)
        x = self.cross_sublayer.after(x, seen)
        return self.feed_forward_sublayer.after(x, self.feed_forward(self.feed_forward_sublayer.before(x)))
