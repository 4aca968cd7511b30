"""SentencePiece BPE and unigram: trained the same way every time, fast to encode, sampled from any generator.

Kudo and Richardson 2018 (SentencePiece), Sennrich et al. 2016 (BPE), Kudo 2018 (unigram and its sampling),
Provilkov et al. 2020 (BPE-dropout). Normalisation is ours (`model.text`): the models hold the identity rule.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise, takewhile
from threading import Lock
from typing import Any

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.text.tokenizer import SPECIAL_PIECES, UNK, Ids, Kind, Tokenizer, without_surrogates
from dragoman.model.text.word_table import SPACE, WordTable, plain

BLOCK_TEXTS = 1 << 14  # encoded together: fewer find the table of words in a slow cache
SENTINEL = "<extra_id_{}>"  # T5's names


class SubwordTokenizer(Tokenizer):
    """A SentencePiece model; the two kinds differ in how they segment."""

    type: Kind

    def __init__(self, model: bytes) -> None:
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.model = model
        self.vocabulary: int = self.processor.vocab_size()
        numbers = range(len(SPECIAL_PIECES), self.vocabulary)
        self.sentinels = list(takewhile(self.processor.is_control, numbers))

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return type(self), (self.model,)

    def decode(self, ids: Sequence[Sequence[int] | NDArray[Any]]) -> list[str]:
        rows = [[int(i) for i in row] for row in ids]
        # row by row: the library starts threads for a list, which cost more than a batch of lines
        return [self.processor.decode(row).replace(" ⁇ ", "⁇") for row in rows]

    def pieces(self, ids: Sequence[int] | NDArray[Any]) -> list[str]:
        return [self.processor.id_to_piece(int(i)) for i in ids]

    def unknown(self, text: str) -> list[str]:
        text = without_surrogates(text)
        ids, pieces = (self.processor.encode(text, out_type=kind) for kind in (int, str))  # an unknown piece is itself
        return [piece for number, piece in zip(ids, pieces, strict=True) if number == UNK]

    def serialise(self) -> bytes:
        return self.model

    @classmethod
    def deserialise(cls, data: bytes, where: str) -> "SubwordTokenizer":
        try:
            tokenizer = cls(data)
        except (RuntimeError, OSError) as problem:
            raise UserError(f"{where}: not a SentencePiece model ({problem})") from None
        pieces = tuple(tokenizer.processor.id_to_piece(i) for i in range(min(6, tokenizer.vocabulary)))
        if pieces != SPECIAL_PIECES:
            raise UserError(f"{where}: its ids 0 to 5 are {pieces}, they must be {SPECIAL_PIECES}")
        return tokenizer

    @cached_property
    def tags(self) -> frozenset[str]:
        """Returns the tags that are pieces, see `model/text/tags.py`, without the sign for a space."""
        from sentencepiece import sentencepiece_model_pb2

        message = sentencepiece_model_pb2.ModelProto.FromString(self.model)
        defined = sentencepiece_model_pb2.ModelProto.SentencePiece.USER_DEFINED
        return frozenset(piece.piece.removeprefix(SPACE) for piece in message.pieces if piece.type == defined)

    @cached_property
    def _scores(self) -> dict[str, float]:
        """Piece -> score of all pieces that text can have: BPE minus the merge's rank, unigram the log-probability."""
        model = self.processor
        never = (model.is_byte, model.is_control, model.is_unused)  # sentinels are controls
        numbers = range(len(SPECIAL_PIECES), self.vocabulary)
        normal = [number for number in numbers if not any(is_kind(number) for is_kind in never)]
        return {model.id_to_piece(number): model.get_score(number) for number in normal}

    @abstractmethod
    def segment(self, word: str, rng: np.random.Generator, strength: float) -> list[str]:
        """The pieces of one word (its leading U+2581 included), drawn at random."""


class BpeTokenizer(SubwordTokenizer):
    """Byte-pair encoding. Sampled, each merge is left out with probability `strength`.

    Words are looked up in a table of the words seen (model/text/word_table.py), which gives the ids of the plain call
    at several times its speed. A text that itself holds the sign for a space or a line feed takes the plain call.
    """

    type: Kind = "bpe"

    def __init__(self, model: bytes) -> None:
        super().__init__(model)
        self._words = WordTable(self.processor)
        self._lock = Lock()

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        blocks = [texts[begin : begin + BLOCK_TEXTS] for begin in range(0, len(texts), BLOCK_TEXTS)]
        return [row for block in blocks for row in self._encode_block(block)]

    def _encode_block(self, texts: Sequence[str]) -> list[Ids]:
        odd = {number: text for number, text in enumerate(texts) if SPACE in text or "\n" in text}
        if odd:
            texts = ["" if number in odd else text for number, text in enumerate(texts)]
        with self._lock:
            rows = self._words.encode(texts, self.dtype)
        for number, text in odd.items():
            rows[number] = np.asarray(plain(self.processor, text), dtype=self.dtype)
        return rows

    def segment(self, word: str, rng: np.random.Generator, strength: float) -> list[str]:
        """Provilkov et al. 2020, Algorithm 1: at every step each possible merge is passed over with `strength`."""
        symbols, scores = list(word), self._scores
        while len(symbols) > 1:
            merges = [scores.get(left + right) for left, right in pairwise(symbols)]
            drawn = rng.random(len(merges)) if strength > 0 else np.ones(len(merges))
            open_ = [
                (score, -place) for place, score in enumerate(merges) if score is not None and drawn[place] >= strength
            ]
            if not open_:
                break
            place = -max(open_)[1]
            symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]
        return symbols


class UnigramTokenizer(SubwordTokenizer):
    """A unigram language model. Sampled, a segmentation is drawn in proportion to P(segmentation) ^ `strength`."""

    type: Kind = "unigram"

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        dtype = self.dtype
        try:
            rows = self.processor.encode(list(texts), out_type=int, num_threads=1)
        except TypeError:  # a lone surrogate somewhere: the library takes UTF-8 only
            rows = self.processor.encode([without_surrogates(text) for text in texts], out_type=int, num_threads=1)
        return [np.asarray(row, dtype=dtype) for row in rows]

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._scores))

    def segment(self, word: str, rng: np.random.Generator, strength: float) -> list[str]:
        """Forward filtering, backward sampling over the lattice of pieces (Kudo 2018, section 3.2)."""
        scores, length = self._scores, len(word)
        unknown = min(scores.values()) - 10.0  # as in the library
        forward = [0.0] + [-math.inf] * length  # log of the summed weights of all paths to a position
        edges: list[list[tuple[int, float]]] = [[] for _ in range(length + 1)]  # end -> (start, weight)
        for end in range(1, length + 1):
            for start in range(max(0, end - self._longest), end):
                score = scores.get(word[start:end], unknown if end == start + 1 else None)
                if score is not None:
                    edges[end].append((start, strength * score))
            terms = [forward[start] + weight for start, weight in edges[end]]
            highest = max(terms)
            forward[end] = highest + math.log(sum(math.exp(term - highest) for term in terms))
        pieces: list[str] = []
        end = length
        while end > 0:
            left = rng.random()
            for start, weight in edges[end]:
                left -= math.exp(forward[start] + weight - forward[end])
                if left < 0:
                    break
            pieces.append(word[start:end])
            end = start
        return pieces[::-1]
