"""word2vec (Mikolov et al. 2013a, b): skip-gram and CBOW with three output layers, trained on a CPU.

Splits a segment between threads; all write the same tables without locks (Recht et al. 2011).

Two threads seldom write a rare row at once; if they do an update is lost, which stochastic gradient descent forgives.
Of frequent rows each thread has a copy (replicas.py).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.ranges import Amount, Count, Finite, Whole, check_ranges
from dragoman.model.word_vectors import replicas, tables
from dragoman.model.word_vectors.huffman import HuffmanTree
from dragoman.model.word_vectors.learner import Text
from dragoman.model.word_vectors.replicas import Copies, Plan
from dragoman.model.word_vectors.sampling import AliasTable, keep_probability
from dragoman.model.word_vectors.workspace import OUTPUTS, Rules, SamplingTables, Scratch

T = TypeVar("T")
LEAST = 1000  # tokens; a smaller part is not worth a thread


def shares(text: Text, threads: int) -> list[Text]:
    """Splits the text into at most `threads` parts with equal tokens; a record at a cut becomes two."""
    count = max(1, min(threads, len(text) // LEAST))
    if count == 1:
        return [text]
    cuts = np.linspace(text.offsets[0], text.offsets[-1], count + 1).astype(np.int64)
    parts = []
    for first, last in pairwise(cuts):
        inside = text.offsets[(text.offsets > first) & (text.offsets < last)]
        parts.append(Text(text.rows, np.concatenate([[first], inside, [last]])))
    return parts


class ThreadPool:
    """Threads that wait for the next segment, since starting one takes as long as training on a thousand words."""

    def __init__(self) -> None:
        self._pool, self._size = ThreadPoolExecutor(1, "word-vectors"), 1  # starts threads on demand

    def work(self, work: Callable[[int, Text], T], parts: Sequence[Text]) -> list[T]:
        """Runs `work(number, part)` on every part at once, the first in this thread; the work must release the GIL."""
        if len(parts) - 1 > self._size:
            self._pool.shutdown()
            self._pool, self._size = ThreadPoolExecutor(len(parts) - 1, "word-vectors"), len(parts) - 1
        others = [self._pool.submit(work, number, part) for number, part in enumerate(parts[1:], 1)]
        return [work(0, parts[0]), *(other.result() for other in others)]


NAMES = ("vectors", "contexts")
REACH = 1.0  # of the initial vectors: twice the original tool's, which CBOW is slow to leave
SOFTMAX_WORDS = 50_000  # a full softmax scores every word at every step: a reference, only for small vocabularies


@dataclass
class Word2VecConfig:
    """The defaults are the original tool's for skip-gram with negative sampling."""

    architecture: Literal["word2vec"] = "word2vec"
    name: str = "skipgram"
    algorithm: Literal["skipgram", "cbow"] = "skipgram"
    output: Literal["negative", "hierarchical", "softmax"] = "negative"
    width: Count = 100  # d, numbers per vector
    window: Count = 5  # most words on each side
    dynamic_window: bool = True  # 1 to `window` words, drawn for every position, so that near words count more
    mean: bool = True  # CBOW predicts from the mean of the window's vectors; false: from their sum
    negatives: Whole = 5  # drawn words per window (Ji et al. 2016), with output=negative
    exponent: Finite = 0.75  # of the counts, for drawing negatives
    sample: Amount = 1e-3  # threshold of Mikolov's subsampling of frequent words; 0: keep all
    min_count: Count = 5  # rarer words get no vector and are dropped from the text
    lr: Amount = 0.025  # at the start; it falls linearly to
    min_lr: Amount = 1e-4


class Place(NamedTuple):
    """The memory of one thread, reused for each segment."""

    scratch: Scratch
    inputs: Copies
    outputs: Copies


class Word2Vec:
    """A `Learner` over `Text`. V words, d = width, W = d padded to whole cache lines.

    Words are predicted from each word around them (skip-gram) or from all of these together (CBOW). "vectors" (V, W)
    holds the rows of the input words, "contexts" those of the predicted ones: (V, W), or (V - 1, W) inner nodes of the
    Huffman tree.
    """

    tables: dict[str, NDArray[np.float32]]

    def __init__(self, config: Word2VecConfig, counts: NDArray[Any], seed: int) -> None:
        """`counts` (V,) of the training text, most frequent first; `seed` of the initial vectors."""
        self.config = config
        self.keep, self.noise, self.tree, self.tables = beginning(config, counts, seed)
        self._rules = Rules(
            config.algorithm == "cbow",
            config.mean,
            OUTPUTS[config.output],
            config.window,
            config.dynamic_window,
            config.negatives,
        )
        kept = np.asarray(counts) * self.keep
        self._stays = float(kept.sum() / np.sum(counts))  # share of the text after subsampling
        self._uses = self._expected_uses(kept / max(kept.sum(), 1e-300))
        self._tables = SamplingTables.of(self.keep, self.noise, self.tree)
        self._pool, self._places = ThreadPool(), dict[int, Place]()

    def train(self, segment: Text, lr: float, seed: int, threads: int) -> tuple[float, int]:
        """Makes one pass over the segment; returns (summed loss, predictions); a prediction is a pair, in CBOW a
        window.

        The loss of a prediction is its -log likelihood, including the noise words. The training loop, not this method,
        checks that the tables are finite before it keeps them.
        """
        from dragoman.model.word_vectors import kernels  # numba: not needed where only a GPU trains

        rows = np.require(segment.rows, np.int32, ["C", "W"])  # one array type, so one compilation
        parts = shares(Text(rows, np.require(segment.offsets, np.int64, ["C", "W"])), threads)
        rate, steps = np.float32(lr), float(segment.offsets[-1] - segment.offsets[0]) * self._stays
        plans = {name: Plan.of(uses, steps, len(parts), lr) for name, uses in self._uses.items()}

        def work(number: int, part: Text) -> tuple[float, int]:
            place = self._place(number, int(np.diff(part.offsets).max(initial=0)))
            place.scratch.begin(seed, number)
            inputs, outputs = (self.tables[name] for name in NAMES)
            copies = (place.inputs.of(inputs, plans["vectors"]), place.outputs.of(outputs, plans["contexts"]))
            text = (part.rows, part.offsets)
            return kernels.train_records(inputs, outputs, *text, self._rules, self._tables, place.scratch, copies, rate)

        losses = self._pool.work(work, parts)
        return sum(loss for loss, _ in losses), sum(predictions for _, predictions in losses)

    def _place(self, number: int, longest: int) -> "Place":
        """Returns the memory of thread `number`; makes it anew for longer records than before."""
        place = self._places.get(number)
        if place is None or len(place.scratch.kept) < longest:
            scratch = Scratch.of(self._rules, self._targets, self.config.width, longest)
            copies = (Copies(self.tables[name]) for name in NAMES)
            place = self._places[number] = Place(scratch, *copies)
        return place

    def _expected_uses(self, kept: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Returns how often a window uses each of the first rows, falling.

        `kept` (V,): the shares of the trained words.
        """
        outputs = np.zeros(len(kept))  # softmax: every window uses all of them equally
        if self.noise:
            outputs = kept + self.config.negatives * self.noise.probabilities()
        elif self.tree:
            outputs = self.tree.visits(kept)
        return {"vectors": self._pairs * kept[: replicas.MOST], "contexts": outputs[: replicas.MOST].copy()}

    @property
    def _pairs(self) -> float:
        """Returns the mean number of words around a word."""
        return self.config.window + 1.0 if self.config.dynamic_window else 2.0 * self.config.window

    @property
    def _targets(self) -> int:
        """Returns the most targets of a word."""
        if self.tree:
            return self.tree.longest
        return 1 + self.config.negatives if self.noise else len(self.keep)

    def vectors(self) -> dict[str, NDArray[np.float32]]:
        """Returns (V, d) "vectors" and (V or V - 1, d) "contexts", copies without the padding."""
        return {name: np.ascontiguousarray(table[:, : self.config.width]) for name, table in self.tables.items()}


def beginning(
    config: Word2VecConfig, counts: NDArray[Any], seed: int
) -> tuple[NDArray[np.float64], AliasTable | None, HuffmanTree | None, dict[str, NDArray[np.float32]]]:
    """Returns the probabilities (V,) that a word stays, the negatives' distribution, the tree, and untrained tables."""
    check(config, len(counts))
    noise = AliasTable.of(counts, config.exponent) if config.output == "negative" else None
    tree = HuffmanTree.of(counts) if config.output == "hierarchical" else None
    vectors = tables.draw_table(len(counts), config.width, seed, REACH)
    contexts = tables.zeros(len(counts) - 1 if tree else len(counts), config.width)
    return keep_probability(counts, config.sample), noise, tree, {"vectors": vectors, "contexts": contexts}


def check(config: Word2VecConfig, words: int) -> None:
    """Refuses settings that cannot be trained."""
    check_ranges("model", config)
    if config.output == "negative" and not config.negatives:
        raise UserError("model.negatives=0: model.output=negative needs at least 1")
    if words < 2:
        raise UserError(
            f"a vocabulary of {words} word(s): word vectors need two, lower model.min_count={config.min_count}"
        )
    if config.output == "softmax" and words > SOFTMAX_WORDS:
        raise UserError(
            f"model.output=softmax: scores all {words:,} words at every step, allowed up to {SOFTMAX_WORDS:,}. "
            "Choices: model.output=negative, model.output=hierarchical, a higher model.min_count"
        )
