"""What the comparison's pictures share: a colour for each network, the same in all of them."""

import io
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.evaluation.word_vectors.plots import PALETTE
from pipelines.tracking.plots import Axes, Figure

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")


@dataclass(frozen=True)
class Picture:
    """A picture as it stands on the page."""

    name: str  # of its file, without .png
    title: str
    text: str  # how to read it, and what it shows here
    alt: str  # what it shows, for who does not see it
    png: bytes
    section: str  # of the page


def colours(labels: Sequence[str]) -> dict[str, str]:
    """A colour for each label, in their order."""
    return {label: PALETTE[place % len(PALETTE)] for place, label in enumerate(labels)}


def markers(labels: Sequence[str]) -> dict[str, str]:
    """A mark for each label: colours alone do not tell lines apart for everyone."""
    return {label: MARKERS[place % len(MARKERS)] for place, label in enumerate(labels)}


def png(figure: Figure) -> bytes:
    """The figure as the bytes of a PNG file; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def clip_labels(words: Sequence[str], most: int = 18) -> list[str]:
    """Labels of an axis: a word that is none (a network that has not learned yet writes such) takes no more room."""
    return [word if len(word) <= most else f"{word[: most - 1]}…" for word in words]


def thousands(axis: Axes, which: str = "x") -> None:
    """Numbers with separators."""
    for name in which:
        (axis.xaxis if name == "x" else axis.yaxis).set_major_formatter(lambda value, _: f"{value:,.0f}")
