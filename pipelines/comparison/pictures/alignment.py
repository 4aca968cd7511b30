"""Alignment maps (figure 3 of Bahdanau et al. 2015): each target word's attention over the source, by network."""

from collections.abc import Mapping

from dragoman.model.alignment.attention_map import AttentionMap
from dragoman.pipelines.comparison.pictures.style import clip_labels
from dragoman.pipelines.tracking.plots import Axes, Figure, panels

COLUMNS = 2


def draw(every: Mapping[str, AttentionMap], source: str) -> Figure:
    """Draws one map per network, its own translation on the left; darker cells have more weight."""
    columns = min(COLUMNS, len(every))
    rows = -(-len(every) // columns)
    tall = max(len(one.target_tokens) for one in every.values())
    wide = max(len(one.source_tokens) for one in every.values())
    size = (1.0 + columns * (1.6 + 0.3 * wide), 0.9 + rows * (1.5 + 0.27 * tall))
    figure, axes = panels(rows, columns, size, f"Attention: {shorten_title(source, int(8 * size[0]) - 11)}")
    for axis, (label, one) in zip(axes, every.items(), strict=False):
        fill(axis, one)
        axis.set_title(f"{label} ({head_name(one.head)})", fontsize=9, loc="left")
    for axis in axes[len(every) :]:
        axis.set_axis_off()
    return figure


def fill(axis: Axes, one: AttentionMap) -> None:
    """Draws one map with its words."""
    axis.imshow(one.weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    axis.set_xticks(range(len(one.source_tokens)), clip_labels(one.source_tokens), rotation=60, ha="left", fontsize=8)
    axis.set_yticks(range(len(one.target_tokens)), clip_labels(one.target_tokens), fontsize=8)
    axis.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    axis.set_xticks([place - 0.5 for place in range(1, len(one.source_tokens))], minor=True)
    axis.set_yticks([place - 0.5 for place in range(1, len(one.target_tokens))], minor=True)
    axis.grid(which="minor", color="#eef0f2", linewidth=0.6)
    axis.tick_params(which="minor", length=0)
    axis.spines[:].set_color("#d5d8dc")


def head_name(head: str) -> str:
    """Turns `l2h0` into the reader's count: layer 3, head 1."""
    layer, _, number = head.removeprefix("l").partition("h")
    if not layer.isdigit():
        return "mean of all heads"
    return f"layer {int(layer) + 1}, head {int(number) + 1}" if number else f"layer {int(layer) + 1}, mean of heads"


def shorten_title(text: str, most: int) -> str:
    """Shortens a title to one line: an inch holds some eight bold letters."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def caption(every: Mapping[str, AttentionMap]) -> str:
    """Describes the heaviest link of each target word."""
    parts = []
    for label, one in every.items():
        pairs = ", ".join(f"{one.target_tokens[t]} at {one.source_tokens[s]}" for s, t in one.pairs[:20])
        parts.append(f"{label}: {pairs or 'no word'}")
    return "Looked at most, " + "; ".join(parts) + "."
