"""The shared style of the comparison's pictures: one colour per network, the same in all of them."""

import io
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.pipelines.evaluation.word_vectors.plots import PALETTE
from dragoman.pipelines.tracking.plots import Axes, Figure

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")


@dataclass(frozen=True)
class Picture:
    """A picture as it appears on the page."""

    name: str  # of its file, without .png
    title: str
    text: str  # how to read it, and what it shows here
    alt: str  # alternative text: what the picture shows
    png: bytes
    section: str  # of the page


def colours(labels: Sequence[str]) -> dict[str, str]:
    """Returns a colour for each label, in their order."""
    return {label: PALETTE[place % len(PALETTE)] for place, label in enumerate(labels)}


def markers(labels: Sequence[str]) -> dict[str, str]:
    """Returns a marker for each label, since not everyone can tell lines apart by colour."""
    return {label: MARKERS[place % len(MARKERS)] for place, label in enumerate(labels)}


def png(figure: Figure) -> bytes:
    """Returns the figure as the bytes of a PNG file; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def clip_labels(words: Sequence[str], most: int = 18) -> list[str]:
    """Shortens an axis' labels, since an untrained network may write very long words."""
    return [word if len(word) <= most else f"{word[: most - 1]}…" for word in words]


def thousands(axis: Axes, which: str = "x") -> None:
    """Formats numbers with separators."""
    for name in which:
        (axis.xaxis if name == "x" else axis.yaxis).set_major_formatter(lambda value, _: f"{value:,.0f}")
