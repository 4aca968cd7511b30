"""Plots of word vectors for MLflow's artifacts: words by PCA, analogies as arrows, loss.

Needs no display; each call makes its own figure, and the same vectors give the same picture.
"""

from collections.abc import Mapping, Sequence

from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.model.word_vectors.labels import bare, label_points, project
from dragoman.pipelines.evaluation.word_vectors.analogies import Question
from dragoman.pipelines.evaluation.word_vectors.evaluation import Sets
from dragoman.pipelines.evaluation.word_vectors.projections import directions, drawn_words, parallelograms
from dragoman.pipelines.tracking.plots import (
    BLUE,
    GREEN,
    ORANGE,
    Axes,
    Figure,
    Points,
    draw_panels,
    finish,
    line,
    noisy,
    pace,
    panels,
)

PALETTE = (BLUE, ORANGE, GREEN, "#a23b72", "#5b5ea6", "#8c6d1f", "#1b998b", "#c44536", "#6b7a3a", "#4a4e57")
SECTIONS = 6  # analogy sections to draw
FEWEST = 3  # words needed for a picture


def all_pictures(embeddings: Embeddings, sets: Sets, words: Sequence[str] = ()) -> dict[str, Figure]:
    """Returns name -> figure for everything that can be drawn; always draws `words`."""
    figures = {"projection": projection(embeddings, drawn_words(embeddings, sets, words))}
    sections = {name: questions for file in sets.analogies.values() for name, questions in file.items()}
    if sections:
        figures["analogies"] = analogy_steps(embeddings, sections)
    return {name: figure for name, figure in figures.items() if figure is not None}


def projection(embeddings: Embeddings, words: Sequence[str]) -> Figure | None:
    """Plots words by PCA of their directions. None for too few words."""
    if len(words) < FEWEST:
        return None
    figure, (axis,) = panels(1, 1, (11.0, 8.0), f"{len(words)} words by PCA")
    points = project(directions(embeddings, words))
    axis.scatter(points[:, 0], points[:, 1], s=9, c=BLUE)
    bare(axis)
    axis.margins(0.06)
    label_points(axis, points, words, [BLUE] * len(words))
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
    for axis, (name, (pairs, ends)), colour in zip(axes, drawn.items(), PALETTE, strict=False):
        axis.set_title(name, fontsize=10, loc="left")
        for begin, end in ends:
            axis.annotate("", end, begin, arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.2, "alpha": 0.75})
        flat, names = ends.reshape(-1, 2), [word for pair in pairs for word in pair]
        axis.scatter(flat[:, 0], flat[:, 1], s=10, color=colour)
        axis.margins(0.2, 0.12)
        bare(axis)
        label_points(axis, flat, names, ["#30343b"] * len(names))
    for axis in axes[len(drawn) :]:
        axis.set_axis_off()
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
