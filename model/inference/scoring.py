"""The log-probability of given translations, by teacher forcing; rescoring and reranking use it.

Letters: B pairs, S source and T target length, N target tokens of a batch, D width, V target vocabulary.

    log P(y | x) = sum over t of log softmax(z_t)[y_t],  with the end of sentence among the y_t

The softmax is over the whole vocabulary. A search excludes the tokens that it never generates (PAD, BOS, <unk> ... and
the end of sentence at the first `min_length` tokens), so its scores are a little higher. With a `DecodeConfig` they are
excluded here too, and a hypothesis gets exactly the search's log-probability.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.decoding.lengths import fit, length_batches
from dragoman.model.layers.losses import CHUNK_ROWS
from dragoman.model.networks.network import Network, TranslationNetwork, evaluating
from dragoman.model.settings import DecodeConfig, TooLong
from dragoman.model.text.batch import TranslationBatch, collate
from dragoman.model.text.normalise import normalise
from dragoman.model.text.tokenizer import EOS, UNK, Tokenizer, TokenizerPair

MOST_PAIRS = 1024  # in a batch

CUTTING = ("too_long",)  # the setting that cuts a text too long for the network


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

    Raises FloatingPointError: the network's output is not a number (its weights are broken).
    """
    names = places if places is not None else [f"pair {number}" for number in range(1, len(sources) + 1)]
    cut_sources = fit(sources, network.max_source_positions, too_long, names, "source", CUTTING)
    cut_targets = fit(targets, network.max_target_positions, too_long, names, "target", CUTTING)

    def measure(rows: list[int], device: torch.device) -> Tensor:
        batch = collate([cut_sources[row] for row in rows], [cut_targets[row] for row in rows], rows)
        return token_log_probabilities(network, batch.to(device), search)

    values = measure_rows(network, measure, names, batch_tokens, [len(ids) for ids in cut_sources], cut_targets)
    lost = [
        len(cut_sources[row]) < len(source) or len(cut_targets[row]) < len(target)
        for row, (source, target) in enumerate(zip(sources, targets, strict=True))
    ]
    return [PairScore(tuple(ids.tolist()), own, cut) for ids, own, cut in zip(cut_targets, values, lost, strict=True)]


def measure_rows(
    network: Network,
    measure: Callable[[list[int], torch.device], Tensor],
    names: Sequence[str],
    batch_tokens: int,
    sources: Sequence[int],
    targets: Sequence[np.ndarray],
) -> list[tuple[float, ...]]:
    """Returns the log-probabilities of each row's `targets`, by `measure` of batches of rows, one row after the other.

    `sources`: how many tokens a row has beside them. Raises FloatingPointError: the network's output is not a number.
    """
    values: dict[int, tuple[float, ...]] = {}
    lengths = [len(ids) for ids in targets]
    with evaluating(network) as device, torch.inference_mode():
        for rows in length_batches(batch_tokens, MOST_PAIRS, sources, lengths):
            each = torch.split(measure(rows, device).cpu(), [lengths[row] for row in rows])
            for row, own in zip(rows, each, strict=True):
                if own.isnan().any():
                    raise FloatingPointError(f"{names[row]}: the network's output is not a number")
                values[row] = tuple(own.tolist())
    return [values[row] for row in range(len(lengths))]


def token_log_probabilities(
    network: TranslationNetwork, batch: TranslationBatch, search: DecodeConfig | None = None
) -> Tensor:
    """Returns (N,) float64: the log-probability of every real token of `batch.target_out`, pair after pair."""
    states = network(batch)  # (B, T, D)
    positions = torch.arange(batch.target_out.shape[1], device=states.device)
    real = positions < ended_lengths(batch.target_out)[:, None]  # (B, T)
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


def ended_lengths(target: Tensor) -> Tensor:
    """(B, T) -> (B,): the number of tokens up to the last end of sentence. A target may contain PAD or EOS."""
    positions = torch.arange(1, target.shape[1] + 1, device=target.device)
    return (target.eq(EOS) * positions).amax(1)
