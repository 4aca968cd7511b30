"""Queries on word vectors: similarities, neighbours, analogies, the vector of a text.

V words, d width. All results are exact: one matrix product gives every word's cosine.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError, unknown
from dragoman.model.text.letters import fold_case
from dragoman.model.text.normalise import FORMS, normalise
from dragoman.model.word_vectors.search import (
    Floats,
    Table,
    blocks,
    cosines,
    inverse_norms,
    is_sparse,
    three_cos_mul,
    top,
    units,
)

Method = Literal["3cosadd", "3cosmul"]
TextBasis = Literal["vectors", "words"]
METHODS: tuple[Method, ...] = get_args(Method)
MOST_SPELLINGS = 3  # suggestions for an unknown word
SPELLINGS = 20_000  # frequent words searched for similar spellings of an unknown one


@dataclass(frozen=True)
class Neighbour:
    """A word and its similarity: its cosine, or for 3CosMul its score."""

    word: str
    similarity: float


@dataclass
class ReadVectors:
    """The words of another program's file and their vectors, in its order, the most frequent first in all formats."""

    words: list[str]
    vectors: NDArray[np.float32]  # (V, d)
    format: str
    dropped: int = 0  # repeated words and those that mean something to a tokenizer, such as </s>


class Embeddings:
    """Words with their vectors, most frequent first. Immutable, so several threads may use it."""

    def __init__(
        self,
        words: Sequence[str],
        counts: NDArray[np.integer[Any]] | None,
        vectors: Table,
        weights: NDArray[np.floating[Any]] | None = None,
        texts: TextBasis = "vectors",
        language: str = "",
    ) -> None:
        """`words` (V,) and `vectors` (V, d), dense or sparse; `counts` (V,), None if unknown (then zeros).

        `weights` (V,): the weight of a word in the vector of a text (idf), 1 by default. `texts`: True if that is the
        sum of the words' vectors; for count-based methods it is the sum of the words themselves, each its own
        dimension. `language` of the words (empty: unknown) determines their lower case.
        """
        self.words, self.texts, self.language = list(words), texts, language
        self.vectors: Table = vectors.tocsr() if is_sparse(vectors) else np.asarray(vectors, np.float32)
        size = len(self.words)
        self.counts = np.zeros(size, np.int64) if counts is None else np.asarray(counts, np.int64)
        self.weights = np.ones(size, np.float32) if weights is None else np.asarray(weights, np.float32)
        shapes = (self.vectors.shape[:1], self.counts.shape, self.weights.shape)
        if self.vectors.ndim != 2 or any(shape != (size,) for shape in shapes):
            raise UserError(
                f"word vectors: {size:,} words, vectors {self.vectors.shape}, "
                f"counts {self.counts.shape}, weights {self.weights.shape} do not belong together"
            )
        if not size:
            raise UserError("word vectors: there are no words")
        self.rows = {word: row for row, word in enumerate(self.words)}
        if len(self.rows) < size:
            twice = next(word for row, word in enumerate(self.words) if self.rows[word] != row)
            raise UserError(f"word vectors: the word {twice!r} has two rows")
        self.inverse = inverse_norms(self.vectors)  # (V,)
        broken = np.flatnonzero(np.isnan(self.inverse))
        if len(broken):
            raise UserError(
                f"word vectors: {len(broken):,} of {size:,} hold nan or infinity, "
                f"the first is that of {self.words[broken[0]]!r}; the training diverged (a lower learning rate?)"
            )

    def __len__(self) -> int:
        return len(self.words)

    @property
    def width(self) -> int:
        """Returns d."""
        return int(self.vectors.shape[1])

    @property
    def sparse(self) -> bool:
        """Returns True if the vectors are a CSR matrix."""
        return is_sparse(self.vectors)

    def row(self, word: str) -> int | None:
        """Returns the row of the word as written, else as texts are normalised (NFC, NFKC); None if unknown."""
        row = self.rows.get(word)
        if row is None:
            places = (self.rows.get(normalise(word, form)) for form in FORMS)
            row = next((place for place in places if place is not None), None)
        return row

    def find(self, word: str) -> int | None:
        """Returns the row of the word, else of its lower case, as question lists are looked up."""
        row = self.row(word)
        return self.row(fold_case(word, self.language)) if row is None else row

    def known(self, word: str) -> int:
        """Returns the word's row."""
        row = self.row(word)
        if row is not None:
            return row
        near = self.spellings(normalise(word))
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise UserError(f"{word!r} is not among the {len(self):,} words of these vectors.{hint}")

    def spellings(self, word: str) -> list[str]:
        """Returns at most MOST_SPELLINGS known words with a similar spelling; other cases of `word` first."""
        lower = fold_case(word, self.language)
        cases = [form for form in dict.fromkeys((lower, word.capitalize(), word.upper())) if form in self.rows]
        begin, length = lower[:1], len(word)
        alike = (word for word in self.words if word[:1].lower() == begin and abs(len(word) - length) <= 2)
        near = get_close_matches(lower, islice(alike, SPELLINGS), n=MOST_SPELLINGS, cutoff=0.75)
        return list(dict.fromkeys([*cases, *near]))[:MOST_SPELLINGS]

    def vector(self, word: str) -> Floats:
        """Returns the word's vector (d,), as trained; a copy."""
        vector: Floats = self._dense(self.vectors[[self.known(word)]])[0]
        return vector

    def similarity(self, a: str, b: str) -> float:
        """Returns the cosine of two words."""
        rows = np.array([[self.known(a), self.known(b)]])
        return float(self.similarities(rows)[0])

    def similarities(self, pairs: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Returns the cosine of each pair of rows (n, 2): (n,)."""
        results = np.empty(len(pairs), np.float64)
        for part in blocks(len(pairs), 16 * (1 if self.sparse else self.width)):
            left, right = (units(self.vectors, self.inverse, pairs[part, side]) for side in (0, 1))
            product = left.multiply(right).sum(axis=1) if self.sparse else np.einsum("nd,nd->n", left, right)
            results[part] = np.asarray(product).ravel()
        return np.clip(results, -1.0, 1.0)

    def neighbours(self, word: str, k: int = 10, restrict: int = 0) -> list[Neighbour]:
        """Returns the `k` words nearest to another word, nearest first.

        `restrict`: search only this many most frequent words; 0: all. Of equals the more frequent comes first.
        """
        row = self.known(word)
        return self._search(units(self.vectors, self.inverse, np.array([row])), k, {row}, restrict)

    def analogy(
        self, a: str, b: str, c: str, k: int = 1, method: Method = "3cosadd", restrict: int = 0
    ) -> list[Neighbour]:
        """Returns the `k` best words for "a is to b as c is to ?", without a, b and c.

        3CosAdd (Mikolov et al. 2013c) or 3CosMul, both as in Levy and Goldberg 2014; the similarity is the cosine with
        the normalised b - a + c, or the score of 3CosMul, 0 or more. `restrict` as for `neighbours`.
        """
        if method not in METHODS:
            raise unknown("method", method, METHODS)
        rows = np.array([self.known(word) for word in (a, b, c)])
        directions = units(self.vectors, self.inverse, rows)
        if method == "3cosadd":  # linear: needs one direction, the other method three
            of_a, of_b, of_c = self._dense(directions)
            direction = (of_b - of_a + of_c).astype(np.float64)
            directions = (direction / (np.linalg.norm(direction) or 1.0)).astype(np.float32)[None, :]
        return self._search(directions, k, set(rows.tolist()), restrict)

    def row_cosines(self, rows: NDArray[np.integer[Any]], restrict: int = 0) -> Floats:
        """Returns the cosines of words by rows (n,) with the `restrict` most frequent words (0: all): (n, words)."""
        queries = units(self.vectors, self.inverse, rows)
        return cosines(self.vectors, self.inverse, queries, self.limit(restrict))

    def text_vectors(self, texts: Iterable[Iterable[str]]) -> Table:
        """Returns one row per text, (n, d) or CSR: the sum of its words' vectors times their weights.

        A word that occurs twice counts twice. Unknown words are skipped, so a text of only unknown words has zeros. CSR
        rows (for sparse vectors) are as wide as those, or (V,) if texts are sums of words.
        """
        from scipy.sparse import csr_array

        rows = [[row for row in map(self.rows.get, words) if row is not None] for words in texts]
        offsets = np.cumsum([0, *map(len, rows)])
        columns = np.fromiter((row for text in rows for row in text), np.int64, offsets[-1])
        chosen = csr_array((self.weights[columns], columns, offsets), shape=(len(rows), len(self)))
        chosen.sum_duplicates()
        return chosen if self.texts == "words" else chosen @ self.vectors

    def limit(self, restrict: int) -> int:
        """Returns the number of most frequent words that `restrict` leaves."""
        if restrict < 0:
            raise UserError(f"restrict: must be 0 (all words) or more, not {restrict}")
        return min(restrict, len(self)) or len(self)

    def _search(self, directions: Table, k: int, out: set[int], restrict: int) -> list[Neighbour]:
        """Returns the words nearest to one direction, or by 3CosMul to three, without the rows of `out`."""
        if k < 1:
            raise UserError(f"k: must be at least 1, not {k}")
        similarities = cosines(self.vectors, self.inverse, directions, self.limit(restrict))
        scores = similarities[0] if len(similarities) == 1 else three_cos_mul(*similarities)
        scores[[row for row in out if row < len(scores)]] = -np.inf
        return [Neighbour(self.words[row], float(scores[row])) for row in top(scores, k)]

    def _dense(self, rows: Table) -> Floats:
        table: Floats = np.asarray(rows.toarray() if is_sparse(rows) else rows, np.float32)
        return table
