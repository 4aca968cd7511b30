"""The picture of one word's uses: a point for each, with its sentence, coloured by sense.

Letters: N uses, D width of a vector.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.alignment.attention_plots import save
from dragoman.model.inference.sentence_vectors import Floats
from dragoman.model.inference.words_in_context import Use
from dragoman.model.text.excerpt import excerpt, for_markup
from dragoman.model.word_vectors.labels import bare, place_labels, settle
from dragoman.model.word_vectors.projection import project

SUFFIXES = (".png", ".svg", ".pdf")
AROUND = 18  # characters of a sentence on each side of the word
SEED = 1


def uses_picture(
    uses: Sequence[Use], vectors: Floats, senses: Sequence[str], path: Path, colours: str, asked: bool = False
) -> None:
    """Draws the uses of one word by the two directions in which `vectors` (N, D) vary most.

    `senses` (N,) have a colour each; `colours` is the legend's title. `asked`: the first use is a star without a sense.

    Raises:
        OSError: the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 8.0), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    axis.set_title(f"{len(uses)} uses of {excerpt(uses[0].word)!r}", loc="left", fontweight="bold", parse_math=False)
    places = project(vectors.astype(np.float64), "pca")
    first = int(asked)
    every = list(dict.fromkeys(senses[first:]))
    for number, sense in enumerate(every):
        rows = [row for row in range(first, len(uses)) if senses[row] == sense]
        axis.scatter(places[rows, 0], places[rows, 1], s=16, color=f"C{number}", label=for_markup(sense) or "-")
    if asked:
        axis.scatter(places[:1, 0], places[:1, 1], s=60, marker="*", color="black", label="the use in query.in")
    axis.legend(title=colours, loc="best", fontsize=9)
    bare(axis)
    axis.margins(0.15, 0.06)
    settle(figure)
    labels = [for_markup(around(use)).replace("$", r"\$") for use in uses]
    inks = ["black"] * first + [f"C{every.index(sense)}" for sense in senses[first:]]
    place_labels(axis, places, labels, inks)
    save(figure, path)


def around(use: Use) -> str:
    """Returns the word with a few characters of its sentence on each side."""
    begin, end = use.span
    first, last = max(0, begin - AROUND), min(len(use.text), end + AROUND)
    return f"{'…' * (first > 0)}{use.text[first:begin]}[{use.word}]{use.text[end:last]}{'…' * (last < len(use.text))}"


def group_uses(vectors: Floats, groups: int) -> list[str]:
    """Returns the number of each use's group (N,), by k-means of the vectors at length 1; the largest group is 1."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = (vectors / np.where(lengths > 0, lengths, 1.0)).astype(np.float64)
    most = min(groups, len(np.unique(units, axis=0)))
    with threadpool_limits(1):
        found: NDArray[Any] = KMeans(most, n_init=10, random_state=SEED).fit_predict(units)
    rank = np.argsort(np.argsort(-np.bincount(found), kind="stable"))
    return [f"group {rank[one] + 1}" for one in found]
