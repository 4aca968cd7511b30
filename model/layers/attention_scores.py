"""Attention scores of recurrent networks: how well a target state matches a source annotation.

With q the query (the decoder's state) and a an annotation (the encoder's state at one source token):

    additive     v' tanh(W q + U a)      Bahdanau et al. 2015, appendix A.1.2; the "concat" of Luong et al. 2015
    dot          q' a                    Luong et al. 2015, equation 8
    general      q' W a                  the same, bilinear
    scaled_dot   q' a / sqrt(Q)          Vaswani et al. 2017, equation 1

The *keys* are the part that depends on the source alone (U a, W a), computed once per sentence.

Letters: B sentences, T queries, S source length, Q query width, A annotation width, D width of the additive layer.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.compiler import is_exporting

from dragoman.model.device import kernels
from dragoman.model.errors import UserError, unknown

ScoreName = Literal["additive", "dot", "general", "scaled_dot"]


class Score(nn.Module):
    """A score function."""

    def keys(self, annotations: Tensor) -> Tensor:
        """annotations (B, S, A) -> keys (B, S, D or Q)."""
        return annotations

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """query (B, T, Q), keys of the source -> scores (B, T, S)."""
        raise NotImplementedError


class Additive(Score):
    """v' tanh(W q + U a), without biases."""

    def __init__(self, query: int, annotation: int, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(query, width, bias=False)
        self.annotation = nn.Linear(annotation, width, bias=False)
        self.v = nn.Parameter(torch.empty(width).uniform_(-1.0, 1.0) * math.sqrt(3.0 / width))

    def keys(self, annotations: Tensor) -> Tensor:
        return self.annotation(annotations)  # type: ignore[no-any-return]  # modules' calls are untyped

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return additive_scores(self.query(query), keys, self.v)


class Dot(Score):
    """q' a: query and annotation have the same width."""

    def __init__(self, query: int, annotation: int, width: int) -> None:
        super().__init__()
        if query != annotation:
            raise UserError(
                f"model.attention: a dot product needs a decoder state ({query}) as wide as an annotation "
                f"({annotation}); choose model.width = 2 x model.encoder_width, or additive or general attention"
            )

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.bmm(query.to(keys.dtype), keys.transpose(1, 2))


class ScaledDot(Dot):
    """q' a / sqrt(Q)."""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return super().forward(query / math.sqrt(query.shape[-1]), keys)


class General(Dot):
    """q' W a: a dot product with keys W a."""

    def __init__(self, query: int, annotation: int, width: int) -> None:
        super().__init__(query, query, width)
        self.annotation = nn.Linear(annotation, query, bias=False)

    def keys(self, annotations: Tensor) -> Tensor:
        return self.annotation(annotations)  # type: ignore[no-any-return]  # modules' calls are untyped


SCORES: dict[str, Callable[[int, int, int], Score]] = {
    "additive": Additive,
    "dot": Dot,
    "general": General,
    "scaled_dot": ScaledDot,
}


def make_score(name: str, query: int, annotation: int, width: int) -> Score:
    """Returns the score `name` between queries and annotations of these widths; `width` is the additive layer's."""
    if name not in SCORES:
        raise unknown("model.attention", name, SCORES)
    return SCORES[name](query, annotation, width)


def attention_weights(scores: Tensor, real: Tensor) -> Tensor:
    """softmax over the source: scores (B, T, S), real (B, S) -> (B, T, S), at least float32, exactly 0 at padding.

    A sentence of only padding gets no weights, as in model/layers/attention.py.
    """
    dtype = torch.promote_types(scores.dtype, torch.float32)
    weights = scores.masked_fill(~real[:, None], torch.finfo(scores.dtype).min).softmax(-1, dtype=dtype)
    seeing = real.any(1)  # (B,)
    if real.device.type == "cpu" and not is_exporting() and bool(seeing.all()):
        return weights
    return weights * seeing[:, None, None]


def attend(weights: Tensor, annotations: Tensor) -> Tensor:
    """Returns the attention vectors: weights (B, T, S) of the annotations (B, S, A) -> (B, T, A)."""
    return torch.bmm(weights.to(annotations.dtype), annotations)


def additive_scores(query: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """v' tanh(query + keys): query (B, T, D), keys (B, S, D), v (D,) -> (B, T, S).

    Computes the B x T x S x D sums a few sentences at a time, in memory that stays in the cache, once forward and
    again backward. Uses at least float32: a CPU is many times slower on bfloat16.
    """
    dtype = torch.promote_types(query.dtype, torch.float32)
    with torch.autocast(query.device.type, enabled=False):
        scores = _AdditiveScores.apply(query.to(dtype), keys.to(dtype), v.to(dtype))  # type: ignore[no-untyped-call]
    return cast("Tensor", scores)


class _AdditiveScores(torch.autograd.Function):
    """With e = tanh(q + k) and g the gradient of a score: dv = sum g e, dq + dk = sums of g v (1 - e^2)."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(query, keys, v)
        scores = query.new_empty(len(query), query.shape[1], keys.shape[1])
        for rows, hidden in _hidden(query, keys):
            torch.matmul(hidden, v, out=scores[rows])
        return scores

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, keys, v = ctx.saved_tensors
        d_query, d_keys = torch.empty_like(query), torch.empty_like(keys)
        d_v = torch.zeros_like(v)
        for rows, hidden in _hidden(query, keys):
            g = gradient[rows]  # (n, T, S)
            d_v += torch.mv(hidden.flatten(0, 2).t(), g.flatten())
            slope = hidden.mul_(hidden).neg_().add_(1.0).mul_(g[..., None])  # g (1 - e^2), (n, T, S, D)
            torch.sum(slope, 2, out=d_query[rows])
            torch.sum(slope, 1, out=d_keys[rows])
        return d_query.mul_(v), d_keys.mul_(v), d_v


def _hidden(query: Tensor, keys: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yields (rows, their tanh(query + keys) (n, T, S, D)) one after the other, in the same memory."""
    batch, queries, width = query.shape
    count = max(1, kernels(query.device).attention_chunk // max(1, queries * keys.shape[1] * width))
    space = query.new_empty(min(count, batch), queries, keys.shape[1], width)
    for start in range(0, batch, count):
        rows = slice(start, min(start + count, batch))
        yield rows, torch.add(query[rows, :, None], keys[rows, None], out=space[: rows.stop - start]).tanh_()
