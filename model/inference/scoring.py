"""The log-probability of given translations, by teacher forcing; rescoring and reranking use it.

Letters: B pairs, S source and T target length, N target tokens of a batch, D width, V target vocabulary.

    log P(y | x) = sum over t of log softmax(z_t)[y_t],  with the end of sentence among the y_t

The softmax is over the whole vocabulary. A search excludes the tokens that it never generates (PAD, BOS, <unk> ... and
the end of sentence at the first `min_length` tokens), so its scores are a little higher. With a `DecodeConfig` they are
excluded here too, and a hypothesis gets exactly the search's log-probability.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.errors import UserError
from dragoman.model.layers.losses import CHUNK_ROWS
from dragoman.model.networks.network import Network, TranslationNetwork, evaluating
from dragoman.model.settings import DecodeConfig
from dragoman.model.text.batch import TranslationBatch, collate
from dragoman.model.text.normalise import normalise
from dragoman.model.text.tokenizer import EOS, UNK, Tokenizer, TokenizerPair

MOST_PAIRS = 1024  # in a batch

TooLong = Literal["error", "truncate"]
CUTTING = ("score.too_long", "rerank.too_long")  # settings that cut a text too long for the network


@dataclass(frozen=True)
class PairScore:
    """The scores of one pair, or of one text."""

    ids: tuple[int, ...]  # target tokens as scored, with the end of sentence
    log_probabilities: tuple[float, ...]  # natural logarithms, one per token
    truncated: bool = False  # True if a side was cut to the network's positions

    @cached_property
    def log_probability(self) -> float:
        """Returns the sum over the whole target."""
        return float(np.sum(self.log_probabilities, dtype=np.float64))

    @property
    def tokens(self) -> int:
        """Returns the number of target tokens with the end of sentence: never 0."""
        return len(self.ids)

    @property
    def mean(self) -> float:
        """Returns the log-probability per token."""
        return self.log_probability / self.tokens

    @property
    def unknown(self) -> int:
        """Returns the number of target tokens that are not in the vocabulary."""
        return self.ids.count(UNK)


class Scorer:
    """Normalises and encodes pairs of text as the network's shards were, and scores them."""

    def __init__(self, network: TranslationNetwork, tokenizers: TokenizerPair, form: str = "NFC") -> None:
        """`form` is the Unicode normalisation of the network's shards; `open_scorer` makes one from a bundle."""
        self.network = network
        self.tokenizers = tokenizers
        self.form = form

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        batch_tokens: int = 8192,
        too_long: TooLong = "error",
        search: DecodeConfig | None = None,
        places: Sequence[str] | None = None,
    ) -> list[PairScore]:
        """Returns one score per pair, in order; see `score_pairs`."""
        return score_pairs(
            self.network,
            self._encode(sources, self.tokenizers.source),
            self._encode(targets, self.tokenizers.target),
            batch_tokens=batch_tokens,
            too_long=too_long,
            search=search,
            places=places,
        )

    def pieces(self, score: PairScore) -> list[str]:
        """Returns the written form of each scored token."""
        return self.tokenizers.target.pieces(score.ids)

    def _encode(self, texts: Sequence[str], tokenizer: Tokenizer) -> list[np.ndarray]:
        """Returns ids with the end of sentence; [EOS] alone for an empty text."""
        different = list(dict.fromkeys(texts))  # an n-best list repeats its source
        encoded = tokenizer.encode([normalise(text, self.form) for text in different])
        ids = {text: np.append(row.astype(np.int64), EOS) for text, row in zip(different, encoded, strict=True)}
        return [ids[text] for text in texts]


def open_scorer(bundle: TranslationBundle, device: str = "cpu") -> Scorer:
    """Returns a scorer of the bundle's network. It always runs on PyTorch, whatever exports the bundle has."""
    return Scorer(bundle.network.to(device), bundle.tokenizers, bundle.normalisation)


def score_pairs(
    network: TranslationNetwork,
    sources: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    *,
    batch_tokens: int = 8192,
    too_long: TooLong = "error",
    search: DecodeConfig | None = None,
    places: Sequence[str] | None = None,
) -> list[PairScore]:
    """Returns one score per pair of 1-D ids with the end of sentence, in the order of the pairs.

    `batch_tokens` bounds a batch: source and target tokens with padding (at least one pair). `too_long` handles a side
    that exceeds the network's positions: `truncate` scores its beginning and the end of sentence. `search`: exclude
    from the softmax what a search with these settings excludes; such a token has -inf. `places` name the pairs in
    messages.

    Raises UserError: a side is too long under `error`. Raises FloatingPointError: the network's output is not a number
    (its weights are broken).
    """
    names = places if places is not None else [f"pair {number}" for number in range(1, len(sources) + 1)]
    limits = network.max_source_positions, network.max_target_positions
    cut_sources = [fit(ids, limits[0], too_long, "source", name) for ids, name in zip(sources, names, strict=True)]
    cut_targets = [fit(ids, limits[1], too_long, "target", name) for ids, name in zip(targets, names, strict=True)]
    answers: dict[int, PairScore] = {}
    lengths = [len(ids) for ids in cut_targets]
    with evaluating(network) as device, torch.inference_mode():
        for rows in pair_batches([len(ids) for ids in cut_sources], lengths, batch_tokens):
            batch = collate([cut_sources[row] for row in rows], [cut_targets[row] for row in rows], rows)
            token_scores = token_log_probabilities(network, batch.to(device), search)
            for row, own in split_rows(token_scores, rows, lengths, names):
                truncated = lengths[row] < len(targets[row]) or len(cut_sources[row]) < len(sources[row])
                answers[row] = PairScore(tuple(cut_targets[row].tolist()), own, truncated)
    return [answers[row] for row in range(len(cut_targets))]


def split_rows(
    values: Tensor, rows: Sequence[int], lengths: Sequence[int], names: Sequence[str]
) -> Iterator[tuple[int, tuple[float, ...]]]:
    """Yields (row, its log-probabilities) of a batch's `values` (N,), whose rows have these lengths and names."""
    for row, own in zip(rows, torch.split(values.cpu(), [lengths[row] for row in rows]), strict=True):
        if own.isnan().any():
            raise FloatingPointError(f"{names[row]}: the network's output is not a number")
        yield row, tuple(own.tolist())


def token_log_probabilities(
    network: TranslationNetwork, batch: TranslationBatch, search: DecodeConfig | None = None
) -> Tensor:
    """Returns (N,) float64: the log-probability of every real token of `batch.target_out`, pair after pair."""
    states = network(batch)  # (B, T, D)
    real = (
        torch.arange(batch.target_out.shape[1], device=states.device) < ended_lengths(batch.target_out)[:, None]
    )  # (B, T)
    targets = batch.target_out[real]  # (N,)
    first = None if search is None else (real.cumsum(1) <= search.min_length)[real]  # (N,) the end is excluded here
    never = torch.tensor([] if search is None else search.forbidden(), dtype=torch.long, device=states.device)
    return log_probabilities(network, states[real], targets, never, first)


def log_probabilities(
    network: Network, states: Tensor, targets: Tensor, never: Tensor | None = None, first: Tensor | None = None
) -> Tensor:
    """Returns (N,) float64: the log-probability of each of `targets` (N,) by the network's output for `states` (N, D).

    Excludes the ids of `never` from the softmax, and the end where `first` (N,) is true. Computes the logits of a few
    hundred tokens at a time.
    """
    values = torch.empty(len(targets), dtype=torch.float64, device=states.device)
    for start in range(0, len(targets), CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        logits = network.logits(states[rows]).float()  # (n, V)
        if never is not None:
            logits = logits.index_fill_(1, never, -torch.inf)
        if first is not None:
            logits[first[rows], EOS] = -torch.inf
        values[rows] = -F.cross_entropy(logits, targets[rows], reduction="none").double()
    return values


def pair_batches(sources: Sequence[int], targets: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yields row numbers of pairs of similar length, longest first: the batch that needs most memory comes at once.

    A batch has at most `budget` tokens of both sides with padding, but at least one pair.
    """
    order = sorted(range(len(sources)), key=lambda row: (-max(sources[row], targets[row]), -sources[row], row))
    batch: list[int] = []
    width = [0, 0]
    for row in order:
        wider = [max(width[0], sources[row]), max(width[1], targets[row])]
        if batch and (len(batch) == MOST_PAIRS or (len(batch) + 1) * sum(wider) > budget):
            yield batch
            batch, wider = [], [sources[row], targets[row]]
        batch.append(row)
        width = wider
    if batch:
        yield batch


def fit(
    ids: np.ndarray, positions: int | None, too_long: TooLong, side: str, name: str, keys: Sequence[str] = CUTTING
) -> np.ndarray:
    """Returns the ids if the network has a position for each, else their beginning and the end of sentence.

    `side`: source or target, or text if there is only one. `keys`: the settings that cut a text that is too long.
    """
    if positions is None or len(ids) <= positions:
        return ids
    if too_long == "error":
        places = "positions" if side == "text" else f"{side} positions"
        raise UserError(
            f"{name}: the {side} has {len(ids)} tokens, more than the model's {positions} {places}; "
            f"take it out, or have its beginning read: {' or '.join(f'{key}=truncate' for key in keys)}"
        )
    return np.concatenate([ids[: positions - 1], np.asarray([EOS], ids.dtype)])


def ended_lengths(target: Tensor) -> Tensor:
    """(B, T) -> (B,): the number of tokens up to the last end of sentence. A target may contain PAD or EOS."""
    positions = torch.arange(1, target.shape[1] + 1, device=target.device)
    return (target.eq(EOS) * positions).amax(1)
