"""BLEU against the length of the sentence: the bottleneck of a fixed context (figure 2 of Bahdanau et al. 2015)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pipelines.comparison.lengths import LengthScore
from pipelines.comparison.pictures.style import colours, markers
from pipelines.tracking.plots import clean, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(every: Mapping[str, Sequence[LengthScore]]) -> "Figure":
    """A line a network, the bands its 95 % intervals."""
    figure, (axis,) = panels(1, 1, (8.6, 4.8), "BLEU against the length of the source")
    labels = list(every)
    colour, mark = colours(labels), markers(labels)
    for label, scores in every.items():
        xs = [one.mean for one in scores]
        axis.fill_between(
            xs, [one.bleu.low for one in scores], [one.bleu.high for one in scores],
            color=colour[label], alpha=0.08, linewidth=0,
        )  # fmt: skip
        axis.plot(
            xs, [one.bleu.score for one in scores], color=colour[label], marker=mark[label], markersize=5,
            linewidth=1.7, label=label,
        )  # fmt: skip
    first = next(iter(every.values()))
    axis.set_xticks(
        [one.mean for one in first],
        [f"{span(one)}\n{one.sentences:,}" for one in first],
    )
    axis.set_xlabel("words of the source; sentences of that length below", fontsize=9)
    axis.set_ylabel("BLEU", fontsize=9)
    axis.set_ylim(bottom=0)
    clean(axis)
    axis.legend(frameon=False, fontsize=9)
    return figure


def span(one: LengthScore) -> str:
    """`6-10`."""
    return f"{one.low}" if one.low == one.high else f"{one.low}-{one.high}"


def said(every: Mapping[str, Sequence[LengthScore]]) -> str:
    """What each network wins or loses from the shortest sentences to the longest, in words."""
    parts = []
    for label, scores in every.items():
        first, last = scores[0], scores[-1]
        if first is last:
            parts.append(f"{label} {first.bleu.score:.1f} at {span(first)} words")
        else:
            change = last.bleu.score - first.bleu.score
            parts.append(f"{label} {first.bleu.score:.1f} to {last.bleu.score:.1f} ({change:+.1f})")
    first, last = next(iter(every.values()))[0], next(iter(every.values()))[-1]
    return f"From sources of {span(first)} words to those of {span(last)}: " + "; ".join(parts) + "."
