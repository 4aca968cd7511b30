"""Plots of word vectors for MLflow's artifacts: projections, heat map, parallelograms, scores, loss.

Needs no display; each call makes its own figure, and the same vectors give the same picture.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.model.word_vectors.labels import Projection, bare, label_points, project
from dragoman.pipelines.evaluation.word_vectors.analogies import Question
from dragoman.pipelines.evaluation.word_vectors.evaluation import TOTALS, Sets, VectorsEvaluation
from dragoman.pipelines.evaluation.word_vectors.projections import directions, drawn_words, groups, parallelograms
from dragoman.pipelines.tracking.plots import (
    BLUE,
    GREEN,
    ORANGE,
    Axes,
    Figure,
    Points,
    clean,
    draw_panels,
    finish,
    line,
    noisy,
    pace,
    panels,
)

PALETTE = (BLUE, ORANGE, GREEN, "#a23b72", "#5b5ea6", "#8c6d1f", "#1b998b", "#c44536", "#6b7a3a", "#4a4e57")
HEAT_WORDS = 36
SECTIONS = 6  # analogy sections to draw
FEWEST = 3  # words needed for a picture


def all_pictures(
    embeddings: Embeddings, evaluation: VectorsEvaluation, sets: Sets, words: Sequence[str] = ()
) -> dict[str, Figure]:
    """Returns name -> figure for everything that can be drawn; always draws `words`."""
    drawn = drawn_words(embeddings, sets, words)
    figures: dict[str, Figure | None] = {
        "projection-pca": projection(embeddings, drawn, "pca"),
        "projection-tsne": projection(embeddings, drawn, "t-SNE"),
        "similarity": heat_map(embeddings, drawn),
    }
    sections = {name: questions for file in sets.analogies.values() for name, questions in file.items()}
    if sections:
        figures["analogies"] = analogy_steps(embeddings, sections)
    if evaluation.similarity or evaluation.analogies:
        figures["scores"] = scores(evaluation)
    return {name: figure for name, figure in figures.items() if figure is not None}


def projection(embeddings: Embeddings, words: Sequence[str], method: Projection) -> Figure | None:
    """Plots words by PCA or t-SNE, coloured by k-means of the whole vectors, without overlapping labels.

    None for too few words.
    """
    if len(words) < FEWEST:
        return None
    title = f"{len(words)} words by {'PCA' if method == 'pca' else method}, coloured by groups of like direction"
    figure, (axis,) = panels(1, 1, (11.0, 8.0), title)
    points = directions(embeddings, words)
    places, members = project(points, method), groups(points)
    colours = [PALETTE[member % len(PALETTE)] for member in members]
    axis.scatter(places[:, 0], places[:, 1], s=9, c=colours)
    bare(axis)
    axis.margins(0.06)
    label_points(axis, places, words, colours)
    return figure


def heat_map(embeddings: Embeddings, words: Sequence[str]) -> Figure | None:
    """Plots the words' cosines with each other, similar words side by side (by average-linkage clustering).

    None for too few words.
    """
    words = [words[round(place)] for place in np.linspace(0, len(words) - 1, min(HEAT_WORDS, len(words)))]
    if len(words) < FEWEST:
        return None
    figure, (axis,) = panels(1, 1, (9.6, 8.6), "Cosine similarity of words")
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    points = directions(embeddings, words)
    cosines = np.clip(points @ points.T, -1.0, 1.0)
    order = leaves_list(linkage(squareform(1.0 - cosines, checks=False), "average", optimal_ordering=True))
    most = max(0.1, float(np.abs(cosines[~np.eye(len(words), dtype=bool)]).max()))  # without each word's with itself
    image = axis.imshow(cosines[np.ix_(order, order)], cmap="RdBu_r", vmin=-most, vmax=most)
    names = [words[place] for place in order]
    axis.set_xticks(range(len(names)), names, rotation=90, fontsize=7.5)
    axis.set_yticks(range(len(names)), names, fontsize=7.5)
    figure.colorbar(image, ax=axis, shrink=0.7, label="cosine")
    return figure


def analogy_steps(embeddings: Embeddings, sections: Mapping[str, Sequence[Question]]) -> Figure | None:
    """Plots the pairs of up to SECTIONS analogy sections as arrows: parallel and equally long if the analogy holds.

    None if no section has three known pairs.
    """
    drawn = parallelograms(embeddings, sections, SECTIONS)
    if not drawn:
        return None
    rows = -(-len(drawn) // 2)
    figure, axes = panels(rows, 2 if len(drawn) > 1 else 1, (12.0, 1.0 + 3.9 * rows), "Analogies: the step from a to b")
    for axis, (name, (_, places)), colour in zip(axes, drawn.items(), PALETTE, strict=False):
        axis.set_title(name, fontsize=10, loc="left")
        for begin, end in places:
            axis.annotate("", end, begin, arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.2, "alpha": 0.75})
        flat = places.reshape(-1, 2)
        axis.scatter(flat[:, 0], flat[:, 1], s=10, color=colour)
        axis.margins(0.2, 0.12)
        bare(axis)
    for axis in axes[len(drawn) :]:
        axis.set_axis_off()
    for axis, (pairs, places) in zip(axes, drawn.values(), strict=False):
        names = [word for pair in pairs for word in pair]
        label_points(axis, places.reshape(-1, 2), names, ["#30343b"] * len(names))
    return figure


def scores(evaluation: VectorsEvaluation) -> Figure:
    """Plots Spearman's correlation by set and the correct answers by section, with the coverage of each."""
    columns = bool(evaluation.similarity) + bool(evaluation.analogies)
    counts = [len(evaluation.similarity), sum(len(sections) for sections in evaluation.analogies.values())]
    figure, axes = panels(1, columns, (6.4 * columns, 1.6 + 0.27 * max(counts)), "Scores by set")
    left = iter(axes)
    if evaluation.similarity:
        values = {name: {"": similarity.spearman} for name, similarity in evaluation.similarity.items()}
        notes = [f"{similarity.found:,} of {similarity.pairs:,}" for similarity in evaluation.similarity.values()]
        bars(next(left), values, notes, "Similarity: Spearman x 100; pairs found")
    if evaluation.analogies:
        every = [
            (file, name, section)
            for file, sections in evaluation.analogies.items()
            for name, section in sections.items()
        ]
        values = {
            f"{file} {name}" if name in TOTALS else name: {
                label: right if section.found else None
                for label, right in (("3CosAdd", section.cosadd), ("3CosMul", section.cosmul))
            }
            for file, name, section in every
        }
        notes = [f"{section.found:,} of {section.asked:,}" for _, _, section in every]
        bars(next(left), values, notes, f"Analogies among {evaluation.restrict:,} words: % right; questions found")
    return figure


def losses(history: Mapping[str, Points]) -> Figure | None:
    """Plots loss, its mean by epoch, learning rate and speed over the steps: one panel per measured one."""

    def loss(axis: Axes) -> None:
        noisy(axis, history.get("loss", ()), BLUE, "training")
        finish(axis, "Loss", "nats a prediction")

    def epochs(axis: Axes) -> None:
        numbers = dict(history.get("epoch", ()))
        means = [(round(numbers.get(step, step)), value) for step, value in history.get("epoch_loss", ())]
        line(axis, means, BLUE, "")
        finish(axis, "Loss by epoch", "nats a prediction")
        axis.set_xlabel("epoch", fontsize=9)

    key = next((key for key in history if key.endswith("_per_second")), "words_per_second")
    steps = pace(f"{key.removesuffix('_per_second')} a second", history, key)
    return draw_panels(history, {("loss",): loss, ("epoch_loss",): epochs, **steps}, "Training")


def bars(axis: Axes, table: Mapping[str, Mapping[str, float | None]], notes: Sequence[str], unit: str) -> None:
    """Draws horizontal bars, one group per row of the table, its note below its name; an undefined value is a dash."""
    labels = list(dict.fromkeys(label for row in table.values() for label in row))
    width = 0.8 / max(1, len(labels))
    for number, label in enumerate(labels):
        places = np.arange(len(table)) - 0.4 + width * (number + 0.5)
        values = [row.get(label) for row in table.values()]
        axis.barh(
            places, [value or 0.0 for value in values], 0.92 * width, color=PALETTE[number % len(PALETTE)], label=label
        )
        for place, value in zip(places, values, strict=True):
            text = "-" if value is None else f"{value:.1f}"
            beside: Any = (3, 0) if (value or 0.0) >= 0 else (-3, 0)
            axis.annotate(
                text, (value or 0.0, place), beside, textcoords="offset points", va="center", fontsize=6.5,
                ha="left" if beside[0] > 0 else "right",
            )  # fmt: skip
    names = [f"{name}\n{count}" if count else name for name, count in zip(table, notes, strict=True)]
    axis.set_yticks(range(len(table)), names, fontsize=6.5)
    axis.invert_yaxis()
    axis.margins(x=0.1, y=0.01)
    axis.set_xlabel(unit, fontsize=9)
    clean(axis)
    axis.tick_params(axis="y", labelsize=6.5)
    axis.grid(axis="y", visible=False)
    if len(labels) > 1:
        beyond: Any = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 5}  # above the bars, not over them
        axis.legend(frameon=False, fontsize=7, borderaxespad=0.2, columnspacing=1.0, handlelength=1.2, **beyond)
