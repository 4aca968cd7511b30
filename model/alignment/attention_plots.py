"""Plots of attention: each target word (a row) over the source words (columns). Darker cells have more weight.

Needs no display; each call makes its own figure. Letters: L layers, H heads, U source words, W target words.
"""

import logging
import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.model.alignment.attention_map import AttentionMap, Weights
from dragoman.model.text.excerpt import for_markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = "Blues"
CELL, SMALL_CELL = 0.28, 0.15  # inches per word; the small one for texts of more than MANY words
HEAD_CELL = 0.19  # inches per word in a plot of all heads
TITLE_SIGN = 0.08  # inches per character of a title
MANY = 70
LONGEST_LABEL = 20  # characters
WIDEST_PAIR = 26  # two maps of up to this many words stand side by side
# For characters that matplotlib's own font lacks, where the machine has one of these.
OTHER_FONTS = ("Noto Sans CJK JP", "Noto Sans CJK SC", "WenQuanYi Zen Hei", "Noto Sans", "Arial Unicode MS", "Symbola")
logger = logging.getLogger(__name__)


def maps_picture(maps: Sequence[AttentionMap], titles: Sequence[str]) -> "Figure":
    """Plots one map per sentence with its words, two in a row where they are short."""
    widest = max(len(sentence.source_tokens) for sentence in maps)
    columns = 2 if len(maps) > 1 and widest <= WIDEST_PAIR else 1
    rows = [list(range(first, min(first + columns, len(maps)))) for first in range(0, len(maps), columns)]
    inches = [cell_size(sentence.source_tokens, sentence.target_tokens) for sentence in maps]
    widths = [len(sentence.source_tokens) * inch for sentence, inch in zip(maps, inches, strict=True)]
    heights = [len(sentence.target_tokens) * inch for sentence, inch in zip(maps, inches, strict=True)]
    across = room([word for sentence in maps for word in sentence.target_tokens])
    down = room([word for sentence in maps for word in sentence.source_tokens]) + 0.35
    each = [max(widths[index] for index in range(column, len(maps), columns)) for column in range(columns)]
    across += max(0.0, TITLE_SIGN * max(map(len, titles)) - min(each))  # a title starts at the left edge of its map
    figure, axes = grid(
        [max(heights[index] for index in row) for row in rows], each, (across * columns, down * len(rows))
    )
    for index, axis in enumerate(axes):
        if index >= len(maps):
            axis.set_axis_off()
            continue
        sentence = maps[index]
        axis.set_anchor("NW")
        draw_map(axis, sentence.weights, sentence.source_tokens, sentence.target_tokens)
        axis.set_title(for_markup(titles[index]), fontsize=9, loc="left", parse_math=False, family=fonts())
    return figure


def heads_picture(weights: Weights, source: Sequence[str], target: Sequence[str], title: str) -> "Figure":
    """Plots every head of one sentence, weights (L, H, W, U): one row per layer, one column per head.

    The words stand at the outer edges.
    """
    layers, heads = weights.shape[:2]
    figure, axes = grid(
        [HEAD_CELL * len(target)] * layers,
        [HEAD_CELL * len(source)] * heads,
        (room(target) + 0.1 * heads, room(source) + 0.25 * layers),
    )
    figure.suptitle(for_markup(title), fontsize=11, fontweight="bold", x=0.01, ha="left", parse_math=False)
    for index, axis in enumerate(axes):
        layer, head = divmod(index, heads)
        draw_map(
            axis,
            weights[layer, head],
            source if layer == 0 else [""] * len(source),
            target if head == 0 else [""] * len(target),
            size=7.0,
        )
        axis.set_xlabel(f"l{layer}h{head}", fontsize=8)
    return figure


def draw_map(axis: "Axes", weights: Weights, source: Sequence[str], target: Sequence[str], size: float = 8.5) -> None:
    """Draws weights (W, U) with a label per row and column; leaves out empty labels."""
    axis.imshow(weights, cmap=COLOURS, vmin=0.0, vmax=1.0, aspect="equal", interpolation="nearest")
    font = size if max(len(source), len(target)) <= MANY else 5.0
    axis.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False, pad=2)
    # plain text: matplotlib would read a dollar sign as a formula
    across, down = ([shorten_label(word) for word in words] if any(words) else [] for words in (source, target))
    axis.set_xticks(range(len(across)), across, rotation=90, fontsize=font, parse_math=False, family=fonts())
    axis.set_yticks(range(len(down)), down, fontsize=font, parse_math=False, family=fonts())
    axis.spines[:].set_color("#d5d8dc")


def grid(
    heights: Sequence[float], widths: Sequence[float], margins: tuple[float, float]
) -> "tuple[Figure, list[Axes]]":
    """Returns a figure with panels of these sizes, and `margins` (across, down) around them all; in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    size = max(3.0, sum(widths) + margins[0]), 0.4 + sum(heights) + margins[1]
    figure = Figure(figsize=size, dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(heights), len(widths), squeeze=False, width_ratios=widths, height_ratios=heights)
    return figure, [axis for row in axes for axis in row]


def cell_size(source: Sequence[str], target: Sequence[str]) -> float:
    """Returns the inches that this map gives a word."""
    return CELL if max(len(source), len(target)) <= MANY else SMALL_CELL


def room(labels: Sequence[str]) -> float:
    """Returns the inches that the longest label needs."""
    return 0.3 + 0.085 * max((len(shorten_label(label)) for label in labels), default=1)


def shorten_label(word: str) -> str:
    """Shortens a label so that the map has space."""
    word = for_markup(word)  # an SVG holds it as a comment
    return word if len(word) <= LONGEST_LABEL else f"{word[: LONGEST_LABEL - 1]}…"


def save(figure: "Figure", path: Path) -> None:
    """Writes the picture, and warns once about characters that no font of this machine has: they show as boxes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure.savefig(path)
    missing = [str(warning.message) for warning in caught if "missing from font" in str(warning.message)]
    if missing:
        logger.warning(f"the picture shows {len(set(missing))} signs as boxes: this machine has no font for them")


@lru_cache(maxsize=1)
def fonts() -> list[str]:
    """Returns matplotlib's own font and those of OTHER_FONTS that this machine has."""
    from matplotlib import font_manager

    there = set(font_manager.get_font_names())
    return ["DejaVu Sans", *(name for name in OTHER_FONTS if name in there)]
