"""Count-based word vectors, without training: one-hot, bag of words, TF-IDF. Sparse, with the interface of dense ones.

V words, N records. The row of a word, and the vector of a text:

one_hot         The identity (V, V): all words are equally far from each other. A text is the sum of its words' rows:
                how often each word occurs in it.
bag_of_words    Counts (V, V) of the words within `window` words on either side, in the same record; all distances count
                alike. A text is how often each word occurs in it, as for one_hot.
tfidf           (V, N): tf(w, r) idf(w), then every record scaled to length 1; tf is how often the word w occurs in the
                record r and idf(w) = ln((1 + N) / (1 + df(w))) + 1, with df(w) the number of records that hold w. A
                text is how often each word occurs in it, times idf(w).

This is the "term specificity" weighting with cosine normalisation of Salton and Buckley 1988, with the smoothed idf of
scikit-learn's TfidfVectorizer: the matrix is that class's, transposed.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.ranges import Count, check_ranges
from dragoman.model.word_vectors.embeddings import TextBasis
from dragoman.model.word_vectors.learner import Text

Csr = Any  # scipy.sparse.csr_array of float32, whose types are unknown to the checker
Tables = dict[str, Any]  # "vectors": Csr; "weights" (V,) float32 if words weigh differently in a text

MOST_ENTRIES = 1 << 27  # nonzero numbers in a table: 1 GB, three times that while counting
_AT_ONCE = 1 << 22  # co-occurrences that are counted before they are added to the others


@dataclass
class OneHotConfig:
    """Only the choice of words."""

    architecture: Literal["one_hot"] = "one_hot"
    name: str = "one_hot"
    min_count: Count = 5  # rarer words get no vector and are dropped from the text
    texts: ClassVar[TextBasis] = "words"


@dataclass
class BagOfWordsConfig:
    """Represents a word by the words around it."""

    architecture: Literal["bag_of_words"] = "bag_of_words"
    name: str = "bag_of_words"
    window: Count = 5  # words on each side
    min_count: Count = 5
    texts: ClassVar[TextBasis] = "words"


@dataclass
class TfidfConfig:
    """Represents a word by the records that contain it."""

    architecture: Literal["tfidf"] = "tfidf"
    name: str = "tfidf"
    min_count: Count = 5
    texts: ClassVar[TextBasis] = "words"


Config = OneHotConfig | BagOfWordsConfig | TfidfConfig


def count_vectors(config: Config, texts: Iterable[Text], vocabulary: int) -> Tables:
    """Returns the tables of a bundle after one pass over the text; holds one text and the table in memory.

    `vocabulary`: V, the number of rows.
    """
    check_ranges("model", config)
    if isinstance(config, OneHotConfig):
        return {"vectors": one_hot(vocabulary)}
    if isinstance(config, BagOfWordsConfig):
        return {"vectors": bag_of_words(texts, vocabulary, config.window)}
    vectors, weights = tfidf(texts, vocabulary)
    return {"vectors": vectors, "weights": weights}


def one_hot(vocabulary: int) -> Csr:
    """Returns the identity (V, V)."""
    from scipy.sparse import csr_array

    rows = np.arange(vocabulary + 1, dtype=np.int32)
    return csr_array((np.ones(vocabulary, np.float32), rows[:-1], rows), shape=(vocabulary, vocabulary))


def bag_of_words(texts: Iterable[Text], vocabulary: int, window: int) -> Csr:
    """Returns (V, V), how often word j occurs within `window` words of word i; symmetric."""
    from scipy.sparse import csr_array

    shape = (vocabulary, vocabulary)

    def counted(firsts: list[NDArray[np.int32]], seconds: list[NDArray[np.int32]]) -> Csr:
        i, j = np.concatenate(firsts), np.concatenate(seconds)
        return csr_array((np.ones(len(i), np.int32), (i, j)), shape=shape)  # adds up equal places

    parts = _Sum(lambda entries: _check_size("bag_of_words", 2 * entries, "a narrower model.window"))
    parts.add(csr_array(shape, dtype=np.int32))
    lower: list[NDArray[np.int32]] = []
    upper: list[NDArray[np.int32]] = []
    for text in texts:
        for before, after in cooccurrences(text, window):
            lower.append(np.minimum(before, after))
            upper.append(np.maximum(before, after))
            if sum(map(len, lower)) >= _AT_ONCE:
                parts.add(counted(lower, upper))
                lower, upper = [], []
    if lower:
        parts.add(counted(lower, upper))
    half = parts.total()  # every co-occurrence once, the lower row first
    return (half + half.T).tocsr().astype(np.float32)  # two equal words are each other's context: counted twice


def tfidf(texts: Iterable[Text], vocabulary: int) -> tuple[Csr, NDArray[np.float32]]:
    """Returns (V, N), the weights of words in records, and (V,), the idf."""
    from scipy.sparse import csr_array, vstack

    parts, entries = [csr_array((0, vocabulary), dtype=np.float32)], 0
    for text in texts:
        words, records = _drop_unknown(text)
        ones = np.ones(len(words), np.float32)
        parts.append(csr_array((ones, (records, words)), shape=(len(text.offsets) - 1, vocabulary)))
        entries += parts[-1].nnz
        _check_size("tfidf", entries, "fewer records")
    counts = vstack(parts, format="csr")  # (N, V)
    frequencies = np.bincount(counts.indices, minlength=vocabulary)  # (V,) records that contain the word
    idf = inverse_frequencies(frequencies, counts.shape[0])
    counts.data *= idf[counts.indices]
    lengths = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1))).ravel()  # (N,)
    counts.data /= np.repeat(lengths, np.diff(counts.indptr))
    return counts.T.tocsr(), idf


def inverse_frequencies(frequencies: NDArray[Any], records: int) -> NDArray[np.float32]:
    """Returns (V,), the idf of words that occur in so many of `records`; finite for words that occur in none."""
    idf: NDArray[np.float32] = (np.log((1 + records) / (1 + np.asarray(frequencies, np.float64))) + 1).astype(
        np.float32
    )
    return idf


class _Sum:
    """A sum of many sparse matrices that are small at first: adds equal sizes first, like a binary counter."""

    def __init__(self, check: Callable[[int], None]) -> None:
        """`check` gets the size of every partial sum."""
        self._parts: list[Csr] = []
        self._check = check

    def add(self, part: Csr) -> None:
        self._parts.append(part)
        while len(self._parts) > 1 and self._parts[-2].nnz <= 2 * self._parts[-1].nnz:
            self._join()

    def total(self) -> Csr:
        while len(self._parts) > 1:
            self._join()
        return self._parts[0]

    def _join(self) -> None:
        last = self._parts.pop()
        self._parts[-1] = self._parts[-1] + last
        self._check(self._parts[-1].nnz)


def cooccurrences(text: Text, window: int) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
    """Yields, for each distance from 1 up to `window`, the pairs of words at that distance in one record.

    Words without a row are left out first; it ends with the distance that no record is long enough for.
    """
    words, records = _drop_unknown(text)
    for distance in range(1, min(window, len(words) - 1) + 1):
        together = records[distance:] == records[:-distance]
        if not together.any():  # no record is that long
            return
        yield words[:-distance][together], words[distance:][together]


def _drop_unknown(text: Text) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Returns (rows, record of each), without dropped words."""
    records = np.repeat(np.arange(len(text.offsets) - 1), np.diff(text.offsets))
    kept = text.rows >= 0
    return text.rows[kept], records[kept]


def _check_size(name: str, entries: int, remedy: str) -> None:
    if entries > MOST_ENTRIES:
        raise UserError(
            f"model={name}: more than {MOST_ENTRIES:,} numbers above zero; this baseline is held in memory whole. "
            f"Choices: a higher model.min_count, {remedy}, less text, or learned vectors (skipgram, cbow, glove)"
        )
