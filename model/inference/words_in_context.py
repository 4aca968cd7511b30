"""Words with the vector that each has in its sentence, and the nearest of them.

A word's vector is the mean of its tokens' vectors. Similarity is the cosine.

Letters: N words, D width of a vector.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dragoman.model.alignment.attention_plots import save
from dragoman.model.alignment.spans import Span, surfaces, token_spans, word_spans
from dragoman.model.errors import UserError
from dragoman.model.inference.sentence_vectors import Floats, NetworkVectors, TokenVectors
from dragoman.model.text.excerpt import excerpt, for_markup
from dragoman.model.word_vectors.labels import bare, label_points, project

SUFFIXES = (".png", ".svg", ".pdf")
AROUND = 18  # characters of a sentence on each side of the word


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


def uses_in(vectors: NetworkVectors, texts: Sequence[str]) -> Uses:
    """Returns the words of the texts in order; words behind the network's positions are left out."""
    words, rows = list[Use](), list[Floats]()
    for token_vectors in vectors.tokens(texts):
        for span, row in word_vectors(vectors, token_vectors, word_spans(token_vectors.text)):
            words.append(Use(token_vectors.text, span))
            rows.append(row)
    return Uses(words, np.stack(rows) if rows else np.zeros((0, vectors.width), np.float32))


def word_vectors(
    vectors: NetworkVectors, token_vectors: TokenVectors, words: Sequence[Span]
) -> Iterable[tuple[Span, Floats]]:
    """Yields each word that tokens overlap, with the mean of their vectors (D,)."""
    tokens = token_spans(surfaces(vectors.tokenizer, token_vectors.ids), token_vectors.text)
    for begin, end in words:
        rows = [row for row, (first, last) in enumerate(tokens) if first < end and last > begin]
        if rows:
            yield (begin, end), token_vectors.vectors[rows].mean(0)


def use_of(vectors: NetworkVectors, word: str, text: str) -> tuple[Use, Floats]:
    """Returns the first use of the word in the text, whatever its case, and its vector (D,)."""
    uses = uses_in(vectors, [text])
    for row, use in enumerate(uses.words):
        if use.word.casefold() == word.casefold():
            return use, uses.vectors[row]
    words = ", ".join(dict.fromkeys(excerpt(use.word) for use in uses.words))
    raise UserError(f"{excerpt(word)!r} is not a word of {excerpt(text)!r}. Its words: {words or 'none'}")


def uses_picture(uses: Sequence[Use], vectors: Floats, path: Path) -> None:
    """Draws the uses of one word by the two directions in which `vectors` (N, D) vary most.

    The first use is a star, the use that was asked for.

    Raises OSError: the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 8.0), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    axis.set_title(f"{len(uses)} uses of {excerpt(uses[0].word)!r}", loc="left", fontweight="bold", parse_math=False)
    points = project(vectors.astype(np.float64))
    axis.scatter(points[1:, 0], points[1:, 1], s=16, color="C0")
    axis.scatter(points[:1, 0], points[:1, 1], s=60, marker="*", color="black", label="the use in query.in")
    axis.legend(loc="best", fontsize=9)
    bare(axis)
    axis.margins(0.15, 0.06)
    inks = ["black", *["C0"] * (len(uses) - 1)]
    label_points(axis, points, [for_markup(around(use)).replace("$", r"\$") for use in uses], inks)
    save(figure, path)


def around(use: Use) -> str:
    """Returns the word with a few characters of its sentence on each side."""
    begin, end = use.span
    first, last = max(0, begin - AROUND), min(len(use.text), end + AROUND)
    return f"{'…' * (first > 0)}{use.text[first:begin]}[{use.word}]{use.text[end:last]}{'…' * (last < len(use.text))}"
