"""Pictures of an evaluation of labels: the confusion matrix, calibration."""

from collections.abc import Sequence

import numpy as np

from dragoman.pipelines.tracking.plots import BLUE, GREY, Figure, clean, panels

MOST = 30  # labels in the confusion matrix, the most frequent ones
WRITTEN = 18  # labels up to which its numbers are written


def confusion(gold: Sequence[str], guessed: Sequence[str], every: Sequence[str], title: str) -> Figure:
    """Draws how often each of the labels was guessed for each, as shares of the row; the diagonal is right."""
    from sklearn.metrics import confusion_matrix

    counts = {label: gold.count(label) for label in every}
    labels = sorted(sorted(counts), key=lambda label: -counts[label])[:MOST]
    matrix = confusion_matrix(gold, guessed, labels=labels)
    shares = matrix / np.maximum(1, matrix.sum(1, keepdims=True))
    size = 2.6 + 0.42 * len(labels)
    figure, (axis,) = panels(1, 1, (size + 1.0, size), title)
    image = axis.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    figure.colorbar(image, ax=axis, fraction=0.046, label="share of the true label")
    if len(labels) <= WRITTEN:
        for (row, column), count in np.ndenumerate(matrix):
            if count:
                colour = "white" if shares[row, column] > 0.5 else "black"
                axis.text(column, row, f"{count:,}", ha="center", va="center", fontsize=8, color=colour)
    axis.set_xticks(range(len(labels)), labels, rotation=90)
    axis.set_yticks(range(len(labels)), labels)
    axis.set_xlabel("guessed")
    axis.set_ylabel("true")
    axis.tick_params(length=0, labelsize=9)
    return figure


def calibration(bins: Sequence[tuple[int, float, float]], title: str) -> Figure:
    """Draws accuracy against confidence: on the diagonal a model is as often right as it says."""
    figure, (axis,) = panels(1, 1, (5.2, 4.6), title)
    drawn = [(count, confidence, right) for count, confidence, right in bins if count]
    total = sum(count for count, _, _ in drawn)
    axis.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=":")
    axis.scatter(
        [confidence for _, confidence, _ in drawn],
        [right for _, _, right in drawn],
        s=[20 + 400 * count / total for count, _, _ in drawn],
        color=BLUE,
        alpha=0.8,
    )
    axis.set_xlabel("confidence (area: labels)")
    axis.set_ylabel("accuracy")
    axis.set_xlim(0, 1.03)
    axis.set_ylim(0, 1.03)
    clean(axis)
    return figure
