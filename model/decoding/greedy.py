"""Greedy search: the likeliest token at each step."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dragoman.model.decoding.hypothesis import Hypothesis, hypothesis
from dragoman.model.decoding.word_loops import WordLoops, mask_loops
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.text.tokenizer import BOS, EOS


def greedy_search(
    network: TranslationNetwork,
    source: Tensor,
    limits: Sequence[int],
    forbidden: Sequence[int],
    alpha: float,
    min_length: int = 1,
    guard: WordLoops | None = None,
) -> list[list[Hypothesis]]:
    """source (B, S) -> one hypothesis each, of at most `limits[b]` tokens. Finished sentences leave the batch."""
    device = source.device
    never = torch.tensor(list(forbidden), dtype=torch.long, device=device)
    longest = max(limits)
    state = network.start(network.encode(source), longest)
    tokens = torch.full((source.shape[0],), BOS, device=device)  # (B,)
    alive = torch.arange(source.shape[0])  # (B,) the sentence of each row; bookkeeping stays on the CPU
    limit = torch.tensor(list(limits))  # (B,)
    chosen = torch.empty(len(limits), longest, dtype=torch.long)
    lengths = torch.zeros(len(limits), dtype=torch.long)
    totals = torch.zeros(len(limits), dtype=torch.float64)
    for step in range(1, longest + 1):
        logits, state = network.step(tokens, state)  # (B, V)
        logits = logits.float().index_fill_(1, never, -torch.inf)
        if step <= min_length:
            logits[:, EOS] = -torch.inf
        if guard is not None:
            mask_loops(guard, chosen[alive, : step - 1].tolist(), logits)
        best, tokens = logits.max(1)  # (B,)
        words = tokens.cpu()
        chosen[alive, step - 1] = words
        lengths[alive] = step
        totals[alive] += (best - logits.logsumexp(1)).cpu()
        going = ((words != EOS) & (step < limit[alive])).nonzero()[:, 0]  # (B',)
        if not len(going):
            break
        if len(going) < len(alive):
            rows = going.to(device)
            state, tokens, alive = network.reorder(state, rows), tokens[rows], alive[going]
    rows_of = zip(chosen.tolist(), lengths.tolist(), totals.tolist(), strict=True)
    return [[hypothesis(ids[:length], total, alpha)] for ids, length, total in rows_of]
