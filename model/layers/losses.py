"""Cross-entropy over the vocabulary, with label smoothing.

N tokens, D width, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor, nn

from dragoman.model.device import kernels

CHUNK_ROWS = 512  # rows of logits at a time: 512 x 10,000 in bf16 are 10 MB, about the size of the caches
MEASURED_ROWS = 128  # without a gradient: float32, and several copies of them
NEVER = -1e4  # the bias of a token that no text has: its probability is 0 in every type
ROW_STEP = 32  # pad the last chunk to a multiple: oneDNN compiles and keeps a product for each number of rows


def vocabulary_loss(states: Tensor, targets: Tensor, output: nn.Linear, smoothing: float) -> tuple[Tensor, Tensor]:
    """Returns the summed loss of predicting `targets` (N,) from `states` (N, D) through the output layer (V, D).

    Returns (loss, nll), both float32 scalars. `loss` is the cross-entropy with the training target and carries the
    gradient; `nll` is the plain negative log-likelihood of the targets and does not. The training target spreads
    `smoothing` over all tokens that a text can have (Szegedy et al. 2016, section 7).
    """
    weight, bias = output.weight, output.bias
    if kernels(states.device).cross_entropy == "native" or not torch.is_grad_enabled():
        return _native(states, targets, weight, bias, smoothing)
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else states.dtype
    with torch.autocast(states.device.type, enabled=False):
        loss, nll = _ChunkedCrossEntropy.apply(states, targets, weight, bias, smoothing, dtype)  # type: ignore[no-untyped-call]
    return loss, nll


def spread_over(bias: Tensor | None, smoothing: float) -> slice | Tensor:
    """Returns the tokens that get a share of `smoothing`, as an index of V: all that the output's bias (V,) allows.

    An imported model has ids that no text has (`NEVER`). A share of one would add its logit of -10,000 to the loss.
    """
    allowed = None if bias is None or not smoothing else bias > NEVER / 2
    return slice(None) if allowed is None or bool(allowed.all()) else allowed


def _native(
    states: Tensor, targets: Tensor, weight: Tensor, bias: Tensor | None, smoothing: float
) -> tuple[Tensor, Tensor]:
    loss = states.new_zeros((), dtype=torch.float32)
    nll = states.new_zeros((), dtype=torch.float32)
    places = spread_over(bias, smoothing)
    rows = max(1, len(states) if states.is_cuda else MEASURED_ROWS)
    for start in range(0, len(states), rows):
        part, part_targets = states[start : start + rows], targets[start : start + rows]
        logits = nn.functional.linear(part, weight, bias).float()  # (n, V)
        every = smoothing if isinstance(places, slice) else 0.0
        part_loss = nn.functional.cross_entropy(logits, part_targets, label_smoothing=every, reduction="sum")
        if isinstance(places, Tensor):
            uniform = (logits.logsumexp(1) - logits[:, places].mean(1)).sum()
            part_loss = (1.0 - smoothing) * part_loss + smoothing * uniform
        loss = loss + part_loss
        if smoothing:
            with torch.no_grad():
                nll = nll + nn.functional.cross_entropy(logits, part_targets, reduction="sum")
    return loss, (nll if smoothing else loss.detach())


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Computes loss and gradient in the forward pass, a chunk of rows at a time, in one preallocated buffer.

    With e the smoothing, y the target and z the logits of a token, loss = lse(z) - (1 - e) z_y - e/V sum(z) and
    dloss/dz = softmax(z) - (1 - e) [y] - e/V. The uniform term is the same for every entry, so it is
    applied to the D-wide results (a row sum of the weights, a column sum of the states) and never to the N x V logits.
    V here counts the tokens of `spread_over`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        targets: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        smoothing: float,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        count, vocabulary = len(states), len(weight)
        hard = 1.0 - smoothing  # the target's part of the training target
        # pad with zero rows: they have no loss and add nothing to the weights' gradient
        h = nn.functional.pad(states.to(dtype), (0, 0, 0, -count % ROW_STEP))  # (N', D)
        w = weight.to(dtype)  # (V, D)
        b = None if bias is None else bias.to(dtype)
        places = spread_over(bias, smoothing)
        uniform = smoothing / len(weight[places])
        row_sum = weight[places].float().sum(0)  # (D,)
        buffer = h.new_empty(min(CHUNK_ROWS, len(h)), vocabulary)
        flat_rows = torch.arange(len(buffer)) * vocabulary  # where each row of the buffer begins
        grad_h = torch.empty_like(h)
        grad_w = torch.zeros_like(weight, dtype=torch.float32)
        grad_b = None if bias is None else torch.zeros_like(bias, dtype=torch.float32)
        nll = torch.zeros((), dtype=torch.float32)
        others = torch.zeros((), dtype=torch.float32)  # the sum of (1 - hard) z_y
        for start in range(0, count, CHUNK_ROWS):
            rows = slice(start, min(start + CHUNK_ROWS, len(h)))
            target_tokens = targets[rows, None]  # (n, 1)
            n = len(target_tokens)
            logits = buffer[: rows.stop - start]  # (n', V)
            if b is None:
                torch.mm(h[rows], w.t(), out=logits)
            else:
                torch.addmm(b, h[rows], w.t(), out=logits)
            if hard < 1.0:
                others += (1.0 - hard) * logits[:n].gather(1, target_tokens).sum(dtype=torch.float32)
            probability = torch.softmax(logits, 1, out=logits)
            # lse(z) = z_y - log p_y; tiny keeps a probability that rounded to zero from becoming infinite
            p_y = probability[:n].gather(1, target_tokens)
            nll -= p_y.float().clamp_min(torch.finfo(torch.float32).tiny).log().sum()
            at_target = flat_rows[:n] + target_tokens[:, 0]
            probability.view(-1).index_copy_(0, at_target, p_y[:, 0] - hard)
            torch.mm(probability, w, out=grad_h[rows])
            grad_w += torch.mm(probability.t(), h[rows])
            if grad_b is not None:
                grad_b += probability[:n].sum(0, dtype=torch.float32)
        loss = nll + others
        if uniform:
            states_sum = states.float().sum(0)  # (D,)
            bias_sum = 0.0 if bias is None else float(bias[places].float().sum())
            loss -= uniform * (states_sum @ row_sum + count * bias_sum)
            grad_w[places] -= uniform * states_sum
            if grad_b is not None:
                grad_b[places] -= uniform * count
        grad_states = grad_h[:count].to(states.dtype)
        if uniform:
            grad_states -= (uniform * row_sum).to(states.dtype)
        ctx.save_for_backward(grad_states, grad_w.to(weight.dtype), *([] if grad_b is None else [grad_b]))
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor, _grad_nll: Tensor) -> tuple[Tensor | None, ...]:
        grad_states, grad_w, *grad_b = ctx.saved_tensors
        scale = grad_loss
        if float(scale) != 1.0:
            grad_states, grad_w = grad_states * scale, grad_w * scale
            grad_b = [g * scale for g in grad_b]
        return grad_states, None, grad_w, (grad_b[0] if grad_b else None), None, None
