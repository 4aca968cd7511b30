"""Beam search with cached state, over all sentences and beams of a batch at once.

Letters: B sentences still in the search, K beam, V target vocabulary, C = 2K candidates per sentence.

A step takes the C best continuations of a sentence. Those among the first K that end are hypotheses; the first K that
do not end form the next beam (at most K of C can end, so K always remain). A sentence is finished when enough
hypotheses have ended, or at its maximum length, where the unended beam counts too. This is CTranslate2's procedure, so
both engines find the same hypotheses. If the beam is as wide as the number of continuations of the last step, the
search is exhaustive: the n-best list holds the best n of all translations.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.model.decoding.hypothesis import Hypothesis, hypothesis
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.settings import DecodeConfig
from dragoman.model.text.tokenizer import BOS, EOS

GROUP = 64  # adjacent logits, represented by their maximum in the first round of the selection


class Guard(Protocol):
    """Keeps tokens out of a search."""

    def mask(self, histories: Sequence[Sequence[int]], logits: Tensor) -> None:
        """Masks the tokens that may not follow each history; changes `logits` (rows, V) in place."""


def beam_search(
    network: TranslationNetwork,
    source: Tensor,
    limits: Sequence[int],
    config: DecodeConfig,
    every: bool = False,
    guard: Guard | None = None,
) -> list[list[Hypothesis]]:
    """source (B, S) -> at most `nbest` distinct hypotheses each, or with `every` all that were found; best first.

    `limits[b]` is the most tokens of sentence b. A sentence is finished when `candidates` hypotheses have ended.
    With alpha 0 scores only fall: a sentence is finished when no live hypothesis can enter its n best.
    """
    device, beam, nbest, alpha = source.device, config.beam, config.nbest, config.alpha
    longest = max(limits)
    state = network.start(network.encode(source), longest)
    tokens = torch.full((source.shape[0],), BOS, device=device)  # (B,), from the second step on (B K,)
    alive = torch.arange(source.shape[0])  # (B,) the sentence of each row; bookkeeping stays on the CPU
    limit = torch.tensor(list(limits))  # (B,)
    totals = torch.zeros(source.shape[0], 1)  # (B, K) log probability so far; one beam before the first step
    history = torch.empty(source.shape[0], 1, 0, dtype=torch.long)  # (B, K, t)
    finished: list[list[Hypothesis]] = [[] for _ in limits]
    count = torch.zeros(len(limits), dtype=torch.long)  # of each sentence
    best = torch.full((len(limits), nbest), -torch.inf)  # the log probabilities of each sentence's n best hypotheses
    for step in range(1, longest + 1):
        logits, state = network.step(tokens, state)  # (B K, V)
        logits = exclude(logits, config, step, history.flatten(0, 1), guard)
        scores, origin, words = (x.cpu() for x in best_candidates(logits, totals.to(device), 2 * beam))  # (B, C)
        history = torch.cat([history.gather(1, origin[:, :, None].expand(-1, -1, step - 1)), words[:, :, None]], 2)
        ends = words.eq(EOS)  # (B, C)
        last = limit.eq(step)  # (B,)
        taken = (ends | last[:, None]) & scores.isfinite()
        taken[:, beam:] = False
        count[alive] += taken.sum(1)
        for row, column in taken.nonzero().tolist():
            ids, total = history[row, column].tolist(), scores[row, column].item()
            finished[int(alive[row])].append(hypothesis(ids, total, alpha))
        if alpha == 0:
            best[alive] = torch.cat([best[alive], scores.masked_fill(~taken, -torch.inf)], 1).topk(nbest, 1).values
            done = best[alive, -1] >= scores.masked_fill(ends, -torch.inf).amax(1)
        else:
            done = count[alive] >= config.candidates
        exhausted = ~(scores.isfinite() & ~ends).any(1)  # every continuation has ended: a tiny vocabulary
        going = (~(done | last | exhausted)).nonzero()[:, 0]  # (B',)
        if not len(going):
            break
        # the first K that do not end, in their order
        kept = (ends[going] * 2 * beam + torch.arange(2 * beam)).argsort(1)[:, :beam]  # (B', K)
        width = totals.shape[1]
        rows = (going[:, None] * width + origin[going].gather(1, kept)).flatten()  # rows of the state to keep
        totals = scores[going].gather(1, kept)
        history = history[going].gather(1, kept[:, :, None].expand(-1, -1, step))
        tokens = words[going].gather(1, kept).flatten().to(device)
        state = network.reorder(state, rows.to(device))
        alive, limit = alive[going], limit[going]
    return [sorted(each, key=lambda hypothesis: -hypothesis.score)[: None if every else nbest] for each in finished]


def exclude(logits: Tensor, config: DecodeConfig, step: int, history: Tensor, guard: Guard | None) -> Tensor:
    """Returns logits (rows, V) in float32, -inf for tokens that may not follow `history` (rows, step - 1)."""
    never = torch.tensor(config.forbidden(), dtype=torch.long, device=logits.device)
    logits = logits.float().index_fill_(1, never, -torch.inf)
    if step <= config.min_length:
        logits[:, EOS] = -torch.inf
    if guard is not None:
        guard.mask(history.tolist(), logits)
    return logits


def best_candidates(logits: Tensor, totals: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the `count` likeliest continuations of each sentence: log probability, beam, token, each (B, count).

    logits (B K, V), totals (B, K) the log probabilities of the beams so far (-inf: no such beam). If a sentence has
    fewer continuations, the rest have log probability -inf. Two rounds give the exact result: the best `count` lie in
    the `count` groups of adjacent logits with the highest maxima, and choosing groups costs far less than sorting K V.
    """
    batch, beam = totals.shape
    vocabulary = logits.shape[1]
    offsets = totals - logits.logsumexp(1).view(batch, beam)  # (B, K): total + logit - logsumexp
    whole = vocabulary // GROUP * GROUP
    peaks = logits[:, :whole].view(len(logits), whole // GROUP, GROUP).amax(2)  # (B K, G)
    if whole < vocabulary:
        peaks = torch.cat([peaks, logits[:, whole:].amax(1, keepdim=True)], 1)
    groups = peaks.shape[1]
    peaks = (peaks.view(batch, beam, groups) + offsets[:, :, None]).flatten(1)  # (B, K G)
    picked = peaks.topk(min(count, beam * groups), 1).indices  # (B, P)
    origin, first = picked // groups, picked % groups * GROUP  # (B, P)
    words = (first[:, :, None] + torch.arange(GROUP, device=logits.device)).flatten(1)  # (B, P GROUP)
    origin = origin.repeat_interleave(GROUP, 1)
    flat = (torch.arange(batch, device=logits.device)[:, None] * beam + origin) * vocabulary
    inside = words < vocabulary
    values = logits.flatten()[flat + words.clamp_max(vocabulary - 1)] + offsets.gather(1, origin)
    values = values.masked_fill(~inside, -torch.inf)
    missing = max(0, count - values.shape[1])  # a tiny vocabulary
    values = F.pad(values, (0, missing), value=-torch.inf)
    origin, words = F.pad(origin, (0, missing)), F.pad(words, (0, missing))
    scores, places = values.topk(count, 1)
    return scores, origin.gather(1, places), words.gather(1, places).clamp_max(vocabulary - 1)
