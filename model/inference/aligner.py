"""Alignment of finished translations from the network's attention, by tokens or by words.

Feeds a translation through the network once more, by teacher forcing, and reads its attention over the source. The
weights equal those of the search, for any architecture, and a search that needs no alignment stays fast.

Letters as in model/alignment/attention_map.py: L layers, H heads, S source tokens, T rows of the target, U source and
W target words.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.model.alignment.attention_map import END, AttentionMap, Head, Reading, Weights, read
from dragoman.model.alignment.spans import merge_tokens, shares, surfaces, token_spans, word_spans
from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.decoding.lengths import fit, length_batches
from dragoman.model.decoding.search import pad
from dragoman.model.errors import UserError
from dragoman.model.inference.scoring import MOST_PAIRS
from dragoman.model.networks.network import TranslationNetwork, evaluating
from dragoman.model.settings import AlignmentConfig
from dragoman.model.text.batch import TranslationBatch
from dragoman.model.text.normalise import normalise
from dragoman.model.text.tokenizer import BOS, EOS, TokenizerPair

BATCH_TOKENS = 2048  # of both sides with padding; maps grow with the product of the lengths
CROSS = re.compile(r"decoder\.(\d+)\.cross")  # the names in `TranslationNetwork.attention_maps`


@dataclass(frozen=True)
class Encoded:
    """A sentence pair as the network reads it."""

    source: NDArray[np.int64]  # (S,) the end of sentence included
    target: NDArray[np.int64]  # without the end of sentence


@dataclass
class Aligner:
    """Attention maps of finished translations.

    The head `auto` is the mean of the last layer but one, where the heads agree best with words (Garg et al. 2019,
    section 4.1); the reading `auto` is output.
    """

    network: TranslationNetwork
    tokenizers: TokenizerPair
    form: str = "NFC"  # the Unicode normalisation of the network's shards
    config: AlignmentConfig = field(default_factory=AlignmentConfig)
    prefix: str = ""  # tags before each source line, as text

    def __post_init__(self) -> None:
        self.config.check()
        self.layers, self.heads = shape(self.network)
        name, reading = self.config.head, self.config.reading
        if name == "auto":
            name = str(Head(max(0, self.layers - 2)) if self.layers * self.heads > 1 else Head(0, 0))
        self.head = Head.of(name, self.layers, self.heads)
        self.reading: Reading = "output" if reading == "auto" else reading

    @cached_property
    def _tags(self) -> NDArray[np.int64]:
        """Returns the ids of `prefix`, whose tokens the network reads and no map shows."""
        return self.tokenizers.source.encode([self.prefix.strip()])[0].astype(np.int64)

    def _tagged(self, pair: Encoded) -> Encoded:
        return replace(pair, source=np.concatenate([self._tags, pair.source])) if len(self._tags) else pair

    @property
    def bytes(self) -> int:
        """Returns the bytes of the network's weights in memory."""
        return self.network.bytes

    def maps(self, lines: Sequence[str], targets: Sequence[Sequence[int]]) -> list[AttentionMap]:
        """Returns one map per line and the ids of its translation, without the end of sentence."""
        texts = [normalise(line, self.form) for line in lines]
        pairs = self.encode(texts, targets)
        decoded = self.tokenizers.target.decode([pair.target for pair in pairs])
        answers: list[AttentionMap | None] = [None] * len(pairs)
        for row, weights in self.weights(pairs):
            chosen = read(self.head.select(weights), self.reading)
            answers[row] = self.make_map(pairs[row], texts[row], decoded[row], chosen)
        return [answer for answer in answers if answer is not None]

    def encode(self, texts: Sequence[str], targets: Sequence[Sequence[int]]) -> list[Encoded]:
        """Returns pairs of normalised text and target ids; cuts off what exceeds the network's positions."""
        rows = [np.append(source.astype(np.int64), EOS) for source in self.tokenizers.source.encode(texts)]
        most, most_source = self.network.max_target_positions, self.network.max_source_positions - len(self._tags)
        cut = [np.asarray(target, np.int64)[:most] for target in targets]
        return [Encoded(*pair) for pair in zip(fit(rows, most_source, "truncate"), cut, strict=True)]

    def weights(self, pairs: Sequence[Encoded]) -> Iterator[tuple[int, Weights]]:
        """Yields (row, the weights (L, H, T, S) of every head), the longest pairs first; each row of weights sums to 1.

        T counts the target's tokens and the end of sentence, which is left out if the network has no position for it.

        Raises FloatingPointError: the network's output is not a number (its weights are broken).
        """
        most = self.network.max_target_positions
        rows_of, tags = [min(len(pair.target) + 1, most) for pair in pairs], len(self._tags)
        with evaluating(self.network) as device:
            for rows in length_batches(BATCH_TOKENS, MOST_PAIRS, [len(pair.source) for pair in pairs], rows_of):
                batch = force_targets([self._tagged(pairs[row]) for row in rows], most).to(device)
                with torch.inference_mode():
                    maps = cross_maps(self.network, batch)  # (B, L, H, T, S)
                for row, every in zip(rows, maps, strict=True):
                    own = every[:, :, : rows_of[row], tags : tags + len(pairs[row].source)]
                    sums = own.sum(-1, keepdims=True)  # below 1 if a network attends to more than the source
                    if not np.isfinite(sums).all():
                        raise FloatingPointError("the network's attention is not a number")
                    yield row, np.where(sums > 0, own / np.maximum(sums, 1e-30), 1.0 / own.shape[-1])

    def make_map(self, pair: Encoded, source: str, target: str, weights: Weights) -> AttentionMap:
        """Returns the map of weights (T, S) of two texts, in the units of the configuration."""
        if self.config.units == "tokens":
            rows, columns = len(weights), weights.shape[1]
            sides = [
                (*self.tokenizers.source.pieces(pair.source[:-1]), END)[:columns],
                (*self.tokenizers.target.pieces(pair.target), END)[:rows],
            ]
        else:
            sides, weights = self.merge_words(pair, source, target, weights)
        head, threshold = str(self.head), self.config.threshold
        return AttentionMap(sides[0], sides[1], weights.astype(np.float32), head, self.reading, threshold)

    def merge_words(
        self, pair: Encoded, source: str, target: str, weights: Weights
    ) -> tuple[list[tuple[str, ...]], Weights]:
        """Returns the words of both texts that have tokens, then the ends of sentence, and their weights."""
        words = word_spans(source), word_spans(target)
        tables = self.word_shares(pair, source, target, *words, rows=len(weights))
        kept = [np.any(table, axis=0, keepdims=True)[0] for table in tables]  # words that were cut off have no token
        sides = [
            (*(text[begin:end] for (begin, end), keep in zip(places, flags, strict=False) if keep), END)[: flags.sum()]
            for text, places, flags in zip((source, target), words, kept, strict=True)
        ]
        return sides, merge_tokens(weights, tables[0][:, kept[0]], tables[1][:, kept[1]])

    def word_shares(
        self,
        pair: Encoded,
        source: str,
        target: str,
        source_words: Sequence[tuple[int, int]],
        target_words: Sequence[tuple[int, int]],
        rows: int,
    ) -> tuple[Weights, Weights]:
        """Returns the part of each token in each word and, last, in the end of sentence: (S, U + 1) and (T, W + 1).

        `rows` is T, with or without the target's end of sentence.
        """
        left = shares(token_spans(surfaces(self.tokenizers.source, pair.source[:-1]), source), source_words)
        right = shares(token_spans(surfaces(self.tokenizers.target, pair.target), target), target_words)
        return with_end(left, len(pair.source)), with_end(right, rows)


def with_end(table: Weights, rows: int) -> Weights:
    """Returns shares (N, U) with the end of sentence as one more word, and as one more token if `rows` exceeds N.

    Tokens of a text without words belong to the end.
    """
    whole = np.zeros((max(rows, len(table)), table.shape[1] + 1), np.float32)
    whole[: len(table), :-1] = table
    whole[:, -1] = whole[:, :-1].sum(1) < 0.5
    return whole[:rows]


def force_targets(pairs: Sequence[Encoded], positions: int) -> TranslationBatch:
    """Returns finished translations as input: BOS and the target, up to the number of positions."""
    lines = [np.concatenate([[BOS], pair.target])[:positions] for pair in pairs]
    source, target = pad([pair.source for pair in pairs]), pad(lines)
    return TranslationBatch(source, target, target, sum(map(len, lines)), np.arange(len(pairs), dtype=np.int64))


def cross_maps(network: TranslationNetwork, batch: TranslationBatch) -> NDArray[np.float32]:
    """Returns (B, L, H, T, S): the weights of every decoder layer over the source; L = 0 if it has no attention."""
    maps = network.attention_maps(batch)
    layers = sorted((int(match[1]), name) for name in maps if (match := CROSS.fullmatch(name)))
    if not layers:
        return np.zeros((len(batch.source), 0, 0, *batch.target_in.shape[1:], *batch.source.shape[1:]), np.float32)
    return torch.stack([maps[name] for _, name in layers], 1).float().cpu().numpy()


def shape(network: TranslationNetwork) -> tuple[int, int]:
    """Returns the number of decoder layers with attention over the source, and of heads in each."""
    probe = force_targets([Encoded(np.asarray([EOS]), np.asarray([], np.int64))], network.max_target_positions)
    with evaluating(network) as device, torch.inference_mode():
        maps = cross_maps(network, probe.to(device))
    if not maps.shape[1]:
        config = getattr(network, "config", None)
        raise UserError(
            f"{getattr(config, 'name', type(network).__name__)}: this network has no attention to show (it reads the "
            f"source into one vector); rnnsearch and transformer have"
        )
    return maps.shape[1], maps.shape[2]


def open_aligner(bundle: TranslationBundle, config: AlignmentConfig | None = None, device: str = "cpu") -> Aligner:
    """Returns an aligner of the bundle's network. It always runs on PyTorch, whatever exports the bundle has."""
    return Aligner(bundle.network.to(device), bundle.tokenizers, bundle.normalisation, config or AlignmentConfig())
