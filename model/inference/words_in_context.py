"""Words with the vector that each has in its sentence, and the nearest of them.

A word's vector is the mean of its tokens' vectors. Similarity is the cosine.

Letters: N words, D width of a vector.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.model.alignment.spans import Span, WordSpans, surfaces, token_spans, word_spans
from dragoman.model.errors import UserError
from dragoman.model.inference.sentence_vectors import Floats, NetworkVectors, TokenVectors
from dragoman.model.text.excerpt import excerpt


@dataclass(frozen=True)
class Use:
    """A word in a text."""

    text: str
    span: Span

    @property
    def word(self) -> str:
        """Returns the word as the text spells it."""
        return self.text[slice(*self.span)]

    @property
    def marked(self) -> str:
        """Returns the text with the word in brackets."""
        begin, end = self.span
        return f"{self.text[:begin]}[{self.word}]{self.text[end:]}"


@dataclass(frozen=True, eq=False)
class Uses:
    """Words in texts, and their vectors."""

    words: list[Use]
    vectors: Floats  # (N, D)

    def nearest(self, vector: Floats, k: int, besides: Use | None = None) -> list[tuple[Use, float]]:
        """Returns the `k` words nearest to `vector` (D,) by cosine, best first; `besides` is left out."""
        lengths = np.linalg.norm(self.vectors, axis=1) * np.linalg.norm(vector)
        cosines = self.vectors @ vector / np.where(lengths > 0, lengths, 1.0)
        order = np.argsort(-cosines, kind="stable")
        return [(self.words[row], float(cosines[row])) for row in order if self.words[row] != besides][:k]


def uses_in(vectors: NetworkVectors, texts: Sequence[str], spans: WordSpans = word_spans) -> Uses:
    """Returns the words of the texts in order; words behind the network's positions are left out."""
    words, rows = list[Use](), list[Floats]()
    for found in vectors.tokens(texts):
        for span, row in word_vectors(vectors, found, spans(found.text)):
            words.append(Use(found.text, span))
            rows.append(row)
    return Uses(words, np.stack(rows) if rows else np.zeros((0, vectors.width), np.float32))


def word_vectors(vectors: NetworkVectors, found: TokenVectors, words: Sequence[Span]) -> Iterable[tuple[Span, Floats]]:
    """Yields each word that tokens overlap, with the mean of their vectors (D,)."""
    tokens = token_spans(surfaces(vectors.tokenizer, found.ids), found.text)
    for begin, end in words:
        rows = [row for row, (first, last) in enumerate(tokens) if first < end and last > begin]
        if rows:
            yield (begin, end), found.vectors[rows].mean(0)


def use_of(vectors: NetworkVectors, word: str, text: str) -> tuple[Use, Floats]:
    """Returns the first use of the word in the text, whatever its case, and its vector (D,).

    Raises:
        UserError: the word is not in the text.
    """
    found = uses_in(vectors, [text])
    for row, use in enumerate(found.words):
        if use.word.casefold() == word.casefold():
            return use, found.vectors[row]
    words = ", ".join(dict.fromkeys(excerpt(use.word) for use in found.words))
    raise UserError(f"{excerpt(word)!r} is not a word of {excerpt(text)!r}. Its words: {words or 'none'}")
