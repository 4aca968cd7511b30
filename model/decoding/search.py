"""Decoding: source ids to hypotheses, greedily or by beam search, in batches of similar length.

Letters: B sentences, S source length, K beam, V target vocabulary.

A hypothesis y of source x has the score

    score(y | x) = log P(y | x) / |y| ** length_penalty

where |y| counts the end of sentence too (as CTranslate2 does, so that both engines rank alike). A penalty of 0 is the
plain log probability, which favours short translations; 1 is the mean per token.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from dragoman.model.decoding.beam import Guard, beam_search, exclude
from dragoman.model.decoding.hypothesis import Hypothesis, hypothesis
from dragoman.model.decoding.lengths import fit, length_batches
from dragoman.model.networks.network import TranslationNetwork, evaluating
from dragoman.model.settings import DecodeConfig
from dragoman.model.text.tokenizer import BOS, EOS, PAD


def greedy_search(
    network: TranslationNetwork, source: Tensor, limits: Sequence[int], config: DecodeConfig, guard: Guard | None = None
) -> list[list[Hypothesis]]:
    """source (B, S) -> one hypothesis each, of at most `limits[b]` tokens. Finished sentences leave the batch."""
    device = source.device
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
        logits = exclude(logits, config, step, chosen[alive, : step - 1], guard)
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
    return [[hypothesis(ids[:length], total, config.alpha)] for ids, length, total in rows_of]


def decode(
    network: TranslationNetwork,
    sources: Sequence[np.ndarray],
    config: DecodeConfig,
    every: bool = False,
    guard: Guard | None = None,
) -> list[list[Hypothesis]]:
    """Returns each source's `nbest` hypotheses, or with `every` all that were found, best first.

    A source is 1-D ids with the end of sentence; one that holds nothing else is decoded like any other. Decoding is
    deterministic and keeps the order of `sources`, whatever order the batches run in.

    Raises FloatingPointError: the network's output is not a number (its weights are broken).
    """
    config.check()
    cut = fit(sources, network.max_source_positions, config.too_long, side="source")
    lengths = [len(ids) for ids in cut]
    answers: list[list[Hypothesis]] = [[] for _ in cut]
    with evaluating(network) as device, torch.inference_mode():
        for rows in length_batches(config.sentence_tokens, config.sentences, lengths):
            limits = [config.longest(lengths[row], network.max_target_positions) for row in rows]
            source = pad([cut[row] for row in rows]).to(device)
            if config.beam == 1:
                results = greedy_search(network, source, limits, config, guard)
            else:
                results = beam_search(network, source, limits, config, every, guard)
            for row, hypotheses in zip(rows, results, strict=True):
                if not hypotheses or not math.isfinite(hypotheses[0].log_probability):
                    raise FloatingPointError(f"sentence {row + 1}: the network's output is not a number")
                answers[row] = hypotheses
    return answers


def pad(sources: Sequence[np.ndarray]) -> Tensor:
    """1-D ids -> (B, S) int64, PAD after the end."""
    padded = np.full((len(sources), max(1, *(len(ids) for ids in sources))), PAD, np.int64)
    for row, ids in enumerate(sources):
        padded[row, : len(ids)] = ids
    return torch.from_numpy(padded)
