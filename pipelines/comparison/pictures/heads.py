"""Every head of a Transformer's attention over the source: one row per layer, one column per head."""

from dragoman.pipelines.comparison.alignments import SentenceMaps, sharpness
from dragoman.pipelines.comparison.pictures.style import clip_labels
from dragoman.pipelines.tracking.plots import Figure, panels


def draw(label: str, maps: SentenceMaps) -> Figure:
    """Draws all maps, words at the outer edges, each head's sharpness below its map."""
    layers, heads = len(maps.heads), len(maps.heads[0])
    source, target = clip_labels(maps.chosen.source_tokens), clip_labels(maps.chosen.target_tokens)
    cell = (max(1.3, 0.16 * len(source)), max(1.2, 0.16 * len(target)))
    size = (max(5.0, 1.4 + cell[0] * heads), 1.7 + (cell[1] + 0.25) * layers)
    figure, axes = panels(layers, heads, size, f"{label}: every head")
    for place, axis in enumerate(axes):
        layer, head = divmod(place, heads)
        weights = maps.heads[layer][head]
        axis.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
        axis.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
        axis.set_xticks(range(len(source)), source, rotation=90, fontsize=6.5)
        axis.set_yticks(range(len(target)), target, fontsize=6.5)
        if layer:
            axis.set_xticks([])
        if head:
            axis.set_yticks([])
        axis.set_xlabel(f"layer {layer + 1}, head {head + 1}: {sharpness(weights):.2f}", fontsize=6.5)
        axis.spines[:].set_color("#d5d8dc")
    return figure


def caption(maps: SentenceMaps) -> str:
    """Describes the sharpest and the most even head."""
    every = {
        (layer + 1, head + 1): sharpness(weights)
        for layer, row in enumerate(maps.heads)
        for head, weights in enumerate(row)
    }
    sharp, even = max(every, key=lambda place: every[place]), min(every, key=lambda place: every[place])
    return (
        f"Sharpest: layer {sharp[0]}, head {sharp[1]} ({every[sharp]:.2f}); most even: layer {even[0]}, "
        f"head {even[1]} ({every[even]:.2f}), where 0 is an even spread and 1 each row on one word alone."
    )
