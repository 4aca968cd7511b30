"""The candidates for the next token and their probabilities: temperature, top-k and top-p.

Letters: B rows, V vocabulary.
"""

import torch
from torch import Tensor


def candidates(logits: Tensor, temperature: float, top_k: int = 0, top_p: float = 1.0) -> tuple[Tensor, Tensor]:
    """logits (B, V) -> ids and probabilities, both (B, V), likeliest first; excluded tokens have probability 0.

    In this order: softmax(z / temperature) with temperature > 0; then the `top_k` likeliest (Fan et al. 2018; 0: all),
    renormalised to sum to one; then the smallest set of likeliest tokens that reaches `top_p` (nucleus sampling,
    Holtzman et al. 2020, section 3.1; at least one). Among equally likely tokens the lower id comes first.
    """
    values, ids = logits.double().sort(dim=1, descending=True, stable=True)
    probabilities = torch.softmax((values - values[:, :1]) / temperature, 1)
    if 0 < top_k < probabilities.shape[1]:
        probabilities[:, top_k:] = 0.0
        probabilities /= probabilities.sum(1, keepdim=True)
    if top_p < 1.0:
        before = probabilities.cumsum(1) - probabilities  # the mass of all likelier tokens
        probabilities = probabilities.masked_fill(before >= top_p, 0.0)
    return ids, probabilities / probabilities.sum(1, keepdim=True)


def draw(ids: Tensor, probabilities: Tensor, uniform: Tensor) -> Tensor:
    """Samples one id per row (B,), by inverting the cumulative distribution at `uniform` (B,) from [0, 1)."""
    cumulative = probabilities.cumsum(1)
    places = torch.searchsorted(cumulative, uniform[:, None] * cumulative[:, -1:], right=True)
    last = (probabilities > 0).sum(1, keepdim=True) - 1  # a product that was rounded up stays within the candidates
    return ids.gather(1, places.minimum(last))[:, 0]
