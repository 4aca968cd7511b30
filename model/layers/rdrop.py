"""R-Drop: two passes over the same targets with different dropout, pulled together (Liang et al. 2021).

N tokens, D width, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor, nn

from dragoman.model.layers.int8 import factors
from dragoman.model.layers.losses import CHUNK_ROWS, spread_over


def paired_vocabulary_loss(
    states: Tensor, targets: Tensor, output: nn.Linear, smoothing: float, strength: float
) -> tuple[Tensor, Tensor]:
    """Returns the summed loss of predicting `targets` (N,) from both of `states` (2, N, D) through the output layer (V,
    D).

    Returns (loss, nll), float32 scalars. With p and q the two predictions of a token, `loss` is the mean of their
    label-smoothed losses plus strength / 4 (KL(p || q) + KL(q || p)). That is half of the paper's equation 4, so that a
    token counts as much as without R-Drop. `nll` is the mean negative log-likelihood and carries no gradient.
    """
    states, weight = factors(output, states)
    device = states.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
    with torch.autocast(device, enabled=False):
        loss, nll = _PairedCrossEntropy.apply(  # type: ignore[no-untyped-call]  # torch's own
            states, targets, weight, output.bias, smoothing, strength / 4, dtype
        )
    return loss, nll


class _PairedCrossEntropy(torch.autograd.Function):
    """Computes loss and gradient in the forward pass, a chunk of rows at a time, as in model/layers/losses.py.

    With r = log(p / q), a = strength / 4 and z the logits of p, the gradient of a token's loss is
    dz = p (1/2 + a (r - KL(p || q) + 1)) - a q - (1 - e)/2 [y] - e/(2V), and likewise for q with -r. V in the last term
    counts the tokens of `spread_over`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        targets: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        smoothing: float,
        pull: float,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        count, vocabulary = states.shape[1], len(weight)
        h, w = states.to(dtype), weight.to(dtype)  # (2, N, D), (V, D)
        b = torch.zeros(vocabulary, device=h.device, dtype=dtype) if bias is None else bias.to(dtype)
        places = spread_over(bias, smoothing)
        share = smoothing / len(weight[places])
        # float16 cannot hold small probabilities; bfloat16 has float32's range
        work = torch.float32 if dtype == torch.float16 else dtype
        most = max(count, 1) if h.is_cuda else min(CHUNK_ROWS, max(count, 1))
        logs, ratios, grads = (h.new_empty(shape, vocabulary, dtype=work) for shape in (2 * most, most, most))
        grad_h = torch.empty_like(h)
        grad_w = torch.zeros_like(weight, dtype=torch.float32)
        grad_b = None if bias is None else torch.zeros_like(bias, dtype=torch.float32)
        nll, uniform, divergence = torch.zeros(3, device=h.device).unbind()
        for start in range(0, count, most):
            rows = slice(start, min(start + most, count))
            n = rows.stop - start
            target_tokens = targets[rows, None]  # (n, 1)
            log_p = logs[: 2 * n].view(2, n, vocabulary)
            for own in (0, 1):
                log_p[own] = torch.addmm(b, h[own, rows], w.t())
                torch.log_softmax(log_p[own], 1, out=log_p[own])
                nll -= log_p[own].gather(1, target_tokens).sum(dtype=torch.float32)
            if smoothing:
                uniform -= log_p[..., places].sum(dtype=torch.float32)
            ratio = torch.sub(log_p[0], log_p[1], out=ratios[:n])
            p = log_p.exp_()
            for own, sign in ((0, 1.0), (1, -1.0)):
                kl = sign * torch.linalg.vecdot(p[own], ratio).float()  # (n,)
                divergence += kl.sum()
                grad = torch.mul(ratio, sign * pull, out=grads[:n])
                grad += (0.5 + pull * (1.0 - kl)).to(work)[:, None]
                grad *= p[own]
                grad.sub_(p[1 - own], alpha=pull)
                if smoothing:
                    grad[:, places] -= share / 2
                grad.scatter_add_(1, target_tokens, grad.new_full((n, 1), (smoothing - 1.0) / 2))
                torch.mm(grad.to(dtype), w, out=grad_h[own, rows])
                grad_w += torch.mm(grad.to(dtype).t(), h[own, rows])
                if grad_b is not None:
                    grad_b += grad.sum(0, dtype=torch.float32)
        loss = ((1.0 - smoothing) * nll + share * uniform) / 2 + pull * divergence
        ctx.save_for_backward(grad_h.to(states.dtype), grad_w.to(weight.dtype), *([] if grad_b is None else [grad_b]))
        nll = nll / 2
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor, _grad_nll: Tensor) -> tuple[Tensor | None, ...]:
        grad_states, grad_w, *grad_b = (grad * grad_loss for grad in ctx.saved_tensors)
        return grad_states, None, grad_w, (grad_b[0] if grad_b else None), None, None, None
