"""Words in two dimensions: their directions, pairs of analogies.

n words, d width. Directions are vectors of length 1, because a vector's length reflects frequency, not meaning.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.model.word_vectors.search import is_sparse, units
from dragoman.pipelines.evaluation.word_vectors.analogies import Question
from dragoman.pipelines.evaluation.word_vectors.evaluation import EVERYWHERE, Sets, frequent_rows

Floats = NDArray[np.float64]
FREQUENT = 60  # words of the similarity sets, or of all words
A_SECTION = 8  # words per analogy section
PAIRS = 7  # pairs in a section's picture


def directions(embeddings: Embeddings, words: Sequence[str]) -> Floats:
    """Returns the vectors of known words at length 1, dense: (n, d)."""
    rows = np.array([embeddings.known(word) for word in words], np.int64)
    vectors = units(embeddings.vectors, embeddings.inverse, rows)
    return np.asarray(vectors.toarray() if is_sparse(vectors) else vectors, np.float64)


def drawn_words(embeddings: Embeddings, sets: Sets, named: Sequence[str] = ()) -> list[str]:
    """Returns the distinct known words of a projection: named ones, frequent ones of the sets, and some per section.

    Without sets: frequent words, except the most common ones."""
    rows = [embeddings.find(word) for word in named]
    of_sets = frequent_rows(embeddings, sets)
    rows += of_sets[:FREQUENT]
    for sections in sets.analogies.values():
        for questions in sections.values():
            words = dict.fromkeys(word for pair in best_pairs(embeddings, questions, A_SECTION // 2) for word in pair)
            rows += [embeddings.row(word) for word in words]
    if not of_sets:
        begin = min(EVERYWHERE, len(embeddings) // 2)
        rows += list(range(begin, min(len(embeddings), begin + 2 * FREQUENT)))
    return [embeddings.words[row] for row in dict.fromkeys(row for row in rows if row is not None)]


def best_pairs(embeddings: Embeddings, questions: Sequence[Question], most: int) -> list[tuple[str, str]]:
    """Returns a section's pairs (a, b), spelled as in the vectors: known, frequent first, no word twice."""
    pairs = dict.fromkeys(pair for a, b, c, d in questions for pair in ((a, b), (c, d)))
    known_pairs = []
    for a, b in pairs:
        first, second = embeddings.find(a), embeddings.find(b)
        if first is not None and second is not None and first != second:
            known_pairs.append((max(first, second), first, second))
    kept: list[tuple[str, str]] = []
    used: set[int] = set()
    for _, first, second in sorted(known_pairs):
        if not used & {first, second} and len(kept) < most:
            used |= {first, second}
            kept.append((embeddings.words[first], embeddings.words[second]))
    return kept


def parallelograms(
    embeddings: Embeddings, sections: Mapping[str, Sequence[Question]], most: int
) -> dict[str, tuple[list[tuple[str, str]], Floats]]:
    """Returns section -> its pairs and their words' points, (pairs, 2, 2), for the `most` sections known best.

    The plane shows the section's step: its first axis is the mean of b - a, its second the direction in which the
    pairs' midpoints vary most. A step that all pairs share becomes arrows of one direction and length.
    """
    shapes: dict[str, tuple[list[tuple[str, str]], Floats]] = {}
    pairs_drawn: set[tuple[str, str]] = set()
    for name, questions in sections.items():
        pairs = best_pairs(embeddings, questions, PAIRS)
        if len(pairs) < 3 or 2 * len(pairs_drawn.intersection(pairs)) >= len(pairs):  # Google's first two overlap
            continue
        pairs_drawn.update(pairs)
        ends: Floats = directions(embeddings, [word for pair in pairs for word in pair]).reshape(len(pairs), 2, -1)
        shapes[name] = (pairs, _plane(ends))
    covered = sorted(shapes, key=lambda name: -len(shapes[name][0]))[:most]
    return {name: shapes[name] for name in sections if name in covered}


def _plane(ends: Floats) -> Floats:
    step = (ends[:, 1] - ends[:, 0]).mean(axis=0)
    length = float(np.linalg.norm(step))
    first: Any = step / length if length else np.zeros_like(step)
    middles = ends.mean(axis=1) - ends.mean(axis=(0, 1))
    middles = middles - np.outer(middles @ first, first)
    second = np.linalg.svd(middles, full_matrices=False)[2][0]
    second = second * np.sign(second[np.abs(second).argmax()])
    return np.asarray((ends - ends.mean(axis=(0, 1))) @ np.stack([first, second]).T, np.float64)
