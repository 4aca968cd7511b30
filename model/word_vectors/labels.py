"""Labels on a scatter plot: each beside its point, none overlapping; a label without space is left out."""

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:  # names for annotations: matplotlib loads when something is drawn
    Axes = Figure = Any
from typing import Literal

Projection = Literal["pca", "t-SNE"]
Floats = NDArray[np.float64]
PERPLEXITY = 15.0  # of t-SNE: neighbours that a word keeps close, among some 150 words
SEED = 1


def project(points: Floats, method: Projection) -> Floats:
    """(n, d) -> (n, 2), deterministic. t-SNE (van der Maaten and Hinton 2008) needs at least 5 words.

    PCA keeps the two directions of largest variance, with fixed signs so that a picture does not flip.
    """
    if method == "t-SNE" and len(points) >= 5:
        from sklearn.manifold import TSNE
        from threadpoolctl import threadpool_limits

        perplexity = min(PERPLEXITY, (len(points) - 1) / 3)
        model = TSNE(perplexity=perplexity, metric="cosine", init="random", random_state=SEED)
        with threadpool_limits(1):  # few points: on a busy machine threads would wait for each other
            return np.asarray(model.fit_transform(points), np.float64)
    centred = points - points.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:2] * np.sign(axes[:2][np.arange(min(2, len(axes))), np.abs(axes[:2]).argmax(axis=1)])[:, None]
    projected = centred @ axes.T
    return np.pad(projected, ((0, 0), (0, 2 - projected.shape[1])))


# Positions of a label around its point, the best first: right (1) or left (-1), above (1) or below (-1).
SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))
HORIZONTAL = {1: "left", 0: "center", -1: "right"}  # the part of the label at its anchor
VERTICAL = {1: "bottom", 0: "center", -1: "top"}
GAPS = (3.0, 7.0, 12.0)  # points (1/72 inch) between point and label
MARGIN = 0.6  # free pixels around a label
DOT = 2.5  # pixels of a point on each side


def bare(axis: Axes) -> None:
    """Removes ticks and frame: only the points' relative positions mean anything."""
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[:].set_color("#e6e8eb")


def settle(figure: Figure) -> None:
    """Fixes every axis at its final place."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def place_labels(
    axis: Axes,
    points: NDArray[np.floating[Any]],
    labels: Sequence[str],
    colours: Sequence[Any],
    size: float = 8.0,
    opposite: NDArray[np.floating[Any]] | None = None,
) -> int:
    """Writes `labels` beside `points` (n, 2), the first ones first; returns how many found space.

    The axis must have its final limits and place in the figure. `opposite` (n, 2): points that a label should avoid,
    such as the other end of an arrow; by default each label tries its sides in the same order.
    """

    from matplotlib.patheffects import withStroke

    canvas: Any = axis.figure.canvas
    renderer, pixels = canvas.get_renderer(), canvas.figure.dpi / 72
    frame = np.array(axis.get_window_extent(renderer).extents)
    places = axis.transData.transform(points)  # (n, 2) pixels
    away = np.zeros_like(places) if opposite is None else places - axis.transData.transform(opposite)
    taken = np.concatenate([places - DOT, places + DOT], axis=1)  # (boxes, 4): left, bottom, right, top
    written = 0
    for number, (label, colour) in enumerate(zip(labels, colours, strict=True)):
        text: Any = axis.annotate(
            label, points[number], (0, 0), textcoords="offset points", fontsize=size, color=colour
        )
        text.set(in_layout=False, path_effects=[withStroke(linewidth=2, foreground="white")])
        extent = text.get_window_extent(renderer)
        half = np.array([extent.width, extent.height]) / 2 + MARGIN
        others = np.delete(taken, number, axis=0)  # it may touch its own point
        for gap, side in product(GAPS, sides(away[number])):
            middle = places[number] + side * (half + gap * pixels)
            box = np.concatenate([middle - half, middle + half])
            if inside(box, frame) and not overlaps(box, others):
                right, up = (int(sign) for sign in side)
                text.set(position=(gap * right, gap * up), ha=HORIZONTAL[right], va=VERTICAL[up])
                taken = np.vstack([taken, box])
                written += 1
                break
        else:
            text.remove()
    return written


def sides(direction: NDArray[np.floating[Any]]) -> list[NDArray[np.float64]]:
    """Returns the places around a point, those towards `direction` (x, y) first; zeros leave the order unchanged."""
    every = [np.array(side, np.float64) for side in SIDES]
    return sorted(every, key=lambda side: -float(side @ direction) / float(np.linalg.norm(side)))


def inside(box: NDArray[np.floating[Any]], frame: NDArray[np.floating[Any]]) -> bool:
    """Returns True if a box lies within a frame."""
    return bool(np.all(box[:2] >= frame[:2]) and np.all(box[2:] <= frame[2:]))


def overlaps(box: NDArray[np.floating[Any]], others: NDArray[np.floating[Any]]) -> bool:
    """Returns True if a box overlaps any of the boxes (n, 4)."""
    left, bottom, right, top = box
    return bool(np.any((others[:, 0] < right) & (others[:, 2] > left) & (others[:, 1] < top) & (others[:, 3] > bottom)))
