"""Training text for masked encoders: whole records in batches of similar length, with other masks each epoch.

Chunks are dealt to windows and records ordered as for pairs (`pipelines/loaders/pairs.py`). A record longer than
`loader.max_length` is cut into pieces of that length. The masks depend only on (seed, epoch, window).

Masking: the tokens that a masked network predicts, and their replacements (Devlin et al. 2019, section 3.1).

A share of the tokens is chosen at random, at least one per record. Of those, 80 % become the mask, 10 % a token drawn
from the vocabulary, and 10 % stay. With whole words, words are chosen and all their tokens are predicted; each token's
replacement is drawn separately. Special ids are never chosen or drawn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.shards.reader import Chunk
from dragoman.model.text.batch import pad
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import MASK, PAD, SPECIAL, Tokenizer
from dragoman.model.text.word_table import SPACE
from dragoman.pipelines.loaders.prefetch import ChunkLanes, OpenWindow
from dragoman.pipelines.loaders.segments import side_of
from dragoman.pipelines.loaders.text import SplitText
from dragoman.pipelines.loaders.window import cut, philox, philox_order
from dragoman.pipelines.settings import LoaderConfig

NEVER = np.uint64(2**64 - 1)
OF_TEN = 10  # of ten chosen tokens: eight masks, one random token, one unchanged
MASKED, RANDOM = 8, 9
HELD_OUT_MASKS = (0x6D61736B, 0)  # random key of held-out masks: the same for every run and model


@dataclass(frozen=True)
class Masking:
    """The masking rules for one vocabulary."""

    vocabulary: int  # V
    share: float  # of the tokens (or words) to predict
    begins: NDArray[np.bool_] | None = None  # (V,) ids that begin a word; None: every token is its own unit
    ends: NDArray[np.bool_] | None = None  # (V,) ids that end a word

    def __post_init__(self) -> None:
        if self.vocabulary <= len(SPECIAL):
            raise UserError(f"tokenizer: a vocabulary of {self.vocabulary} has nothing to mask but special ids")

    def mask(
        self, ids: NDArray[np.int64], starts: NDArray[np.int64], bits: np.random.Philox
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns (inputs, targets), both (tokens,), for concatenated records that begin at `starts`.

        Targets are PAD except at tokens to predict. `bits` is the only source of randomness.
        """
        draws = bits.random_raw(2 * len(ids)).reshape(2, -1)  # for the choice, and for the replacement
        units = np.cumsum(self._begins(ids, starts)) - 1  # the word of each token
        chosen_by = np.where(ids >= len(SPECIAL), draws[0][units], NEVER)
        least = np.minimum.reduceat(chosen_by, starts)  # (records,)
        least_here = np.repeat(least, np.diff(np.append(starts, len(ids))))
        threshold = np.uint64(self.share * 2.0**64)
        chosen = ((chosen_by < threshold) | (chosen_by == least_here)) & (chosen_by != NEVER)
        what = (draws[1] >> np.uint64(32)) % np.uint64(OF_TEN)
        drawn = len(SPECIAL) + (draws[1] & np.uint64(2**32 - 1)) % np.uint64(self.vocabulary - len(SPECIAL))
        inputs = ids.copy()
        inputs[chosen & (what < MASKED)] = MASK
        random = chosen & (what >= MASKED) & (what < RANDOM)
        inputs[random] = drawn[random]
        return inputs, np.where(chosen, ids, PAD)

    def _begins(self, ids: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns (tokens,): True where a unit of the choice begins."""
        if self.begins is None or self.ends is None:
            return np.ones(len(ids), dtype=np.bool_)
        begins = self.begins[ids]
        begins[1:] |= self.ends[ids[:-1]]
        begins[starts] = True
        return begins


def masking(tokenizer: Tokenizer, share: float, whole_words: bool = False) -> Masking:
    """Returns the masking rules for a tokenizer's vocabulary."""
    if not whole_words or tokenizer.type == "words":
        return Masking(tokenizer.vocabulary, share)
    pieces = tokenizer.pieces(range(tokenizer.vocabulary))
    special = np.arange(len(pieces)) < len(SPECIAL)
    if tokenizer.type == "characters":
        spaces = np.array([piece.isspace() for piece in pieces]) | special
        return Masking(tokenizer.vocabulary, share, spaces, spaces)
    begins = np.array([piece.startswith(SPACE) for piece in pieces]) | special
    return Masking(tokenizer.vocabulary, share, begins, special)


@dataclass
class MaskedWindow:
    """The masked records of some chunks, in the order of the chunks."""

    ids: NDArray[np.int64]  # (n,) global ids of the pieces' records
    starts: NDArray[np.int64]  # (n,) starts of pieces
    lengths: NDArray[np.int64]  # (n,)
    inputs: NDArray[np.int64]  # (tokens,)
    targets: NDArray[np.int64]  # (tokens,) PAD except where a token is to be predicted

    @staticmethod
    def of(
        chunks: Sequence[Chunk], side: int, longest: int, masking: Masking, bits: np.random.Philox
    ) -> "MaskedWindow":
        """Masks one side of the chunks' records."""
        sides = [side_of(chunk, side == 1) for chunk in chunks]
        tokens = np.concatenate([ids for ids, _ in sides]).astype(np.int64)
        lengths = np.concatenate([np.diff(offsets.astype(np.int64)) for _, offsets in sides])
        ids = np.concatenate([np.arange(chunk.first_id, chunk.first_id + chunk.records) for chunk in chunks])
        return MaskedWindow.mask_records(tokens, lengths, ids, longest, masking, bits)

    @staticmethod
    def mask_records(
        tokens: NDArray[np.int64],
        lengths: NDArray[np.int64],
        ids: NDArray[np.int64],
        longest: int,
        masking: Masking,
        bits: np.random.Philox,
    ) -> "MaskedWindow":
        """Masks records that are concatenated in `tokens`, with their lengths (n,) and ids (n,)."""
        pieces, lengths = pieces_of(lengths, longest)
        starts = np.cumsum(lengths) - lengths
        return MaskedWindow(ids[pieces], starts, lengths, *masking.mask(tokens, starts, bits))

    def count_targets(self) -> NDArray[np.int64]:
        """Returns (n,): the number of tokens to predict in each piece."""
        return np.add.reduceat((self.targets != PAD).astype(np.int64), self.starts)

    def batch(self, rows: NDArray[np.int64], lane: int = 0) -> TextBatch:
        """Returns these pieces as a padded batch."""
        starts, lengths = self.starts[rows], self.lengths[rows]
        inputs, targets = (torch.from_numpy(pad(packed, starts, lengths)) for packed in (self.inputs, self.targets))
        return TextBatch(inputs, targets, int((targets != PAD).sum()), self.ids[rows], lane)


class MaskedLoader(ChunkLanes[TextBatch]):
    """This rank's lanes of a split, without end."""

    of: ClassVar[tuple[str, ...]] = (
        "lanes",
        "batch_tokens",
        "window_chunks",
        "max_length",
        "mlm_probability",
        "whole_words",
        "side",
    )

    def __init__(
        self, text: SplitText, config: LoaderConfig, masking: Masking, seed: int = 1, rank: int = 0, world: int = 1
    ) -> None:
        super().__init__(text.reader, config, seed, rank, world)
        self.text, self.masking = text, masking

    def nothing_fits(self, lane: int) -> UserError:
        return UserError(f"{self.text.reader.directory}: lane {lane} has nothing but unknown tokens to mask")

    def open(self, lane: int, epoch: int, number: int) -> OpenWindow[TextBatch]:
        chunks = [self.reader.chunk(i) for i in self.chunks_of(epoch, number)]
        bits = philox(self.seed, epoch, number + 1, 3)
        window = MaskedWindow.of(chunks, self.text.side, self.longest, self.masking, bits)
        rows = philox_order(len(window.ids), self.seed, epoch, number + 1, 1)
        rows = rows[window.count_targets()[rows] > 0]
        rows, parts = cut(rows, window.lengths, window.lengths, self.config.batch_tokens)
        order = philox_order(len(parts), self.seed, epoch, number + 1, 2).tolist()
        return OpenWindow(len(order), lambda index: window.batch(rows[parts[order[index]]], lane))


def held_out_masked(
    text: SplitText, masking: Masking, longest: int, batch_tokens: int, rank: int = 0, world: int = 1
) -> Iterator[TextBatch]:
    """Yields every record of a split once with fixed masks, sorted by length, dealt to ranks batch by batch.

    Holds the whole split in memory: it is meant for held-out sets.
    """
    window = MaskedWindow.of(list(text.reader), text.side, longest, masking, held_out_bits())
    for batch, _ in sorted_batches(window, batch_tokens, rank, world):
        yield batch


def held_out_bits() -> np.random.Philox:
    return philox(*HELD_OUT_MASKS)


def sorted_batches(
    window: MaskedWindow, batch_tokens: int, rank: int = 0, world: int = 1
) -> Iterator[tuple[TextBatch, NDArray[np.int64]]]:
    """Yields a window's pieces that have targets, sorted by length, and their numbers (B,) in the window.

    This rank gets every `world`-th batch."""
    rows = np.flatnonzero(window.count_targets() > 0)
    rows, parts = cut(rows, window.lengths, window.lengths, batch_tokens)
    for part in parts[rank::world]:
        yield window.batch(rows[part]), rows[part]


def pieces_of(lengths: NDArray[np.int64], longest: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns (record, length) of each piece: records (n,) cut into pieces of at most `longest` tokens."""
    counts = -(-lengths // longest)
    records = np.repeat(np.arange(len(lengths)), counts)
    within = np.arange(len(records)) - np.repeat(np.cumsum(counts) - counts, counts)
    return records, np.minimum(longest, lengths[records] - within * longest)
