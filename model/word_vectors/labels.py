"""Words as points of a picture: where they lie, and their labels."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:  # names for annotations: matplotlib loads when something is drawn
    Axes = Any

Floats = NDArray[np.float64]


def project(points: Floats) -> Floats:
    """(n, d) -> (n, 2): the two directions of largest variance, with fixed signs so that a picture does not flip."""
    centred = points - points.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:2] * np.sign(axes[:2][np.arange(min(2, len(axes))), np.abs(axes[:2]).argmax(axis=1)])[:, None]
    projected = centred @ axes.T
    return np.pad(projected, ((0, 0), (0, 2 - projected.shape[1])))


def bare(axis: Axes) -> None:
    """Removes ticks and frame: only the points' relative positions mean anything."""
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[:].set_color("#e6e8eb")


def label_points(axis: Axes, points: NDArray[np.floating[Any]], labels: Sequence[str], colours: Sequence[Any]) -> None:
    """Writes each label at the right of its point (n, 2)."""
    from matplotlib.patheffects import withStroke

    for label, point, colour in zip(labels, points, colours, strict=True):
        text: Any = axis.annotate(label, point, (4, 0), textcoords="offset points", fontsize=8, color=colour)
        text.set(va="center", in_layout=False, path_effects=[withStroke(linewidth=2, foreground="white")])
