"""BLEU and surprise against the length of the sentence: the bottleneck of a fixed context (Bahdanau et al. 2015)."""

from collections.abc import Mapping, Sequence

from dragoman.pipelines.comparison.lengths import LengthScore
from dragoman.pipelines.comparison.pictures.style import colours, markers
from dragoman.pipelines.tracking.plots import Figure, clean, panels


def draw(every: Mapping[str, Sequence[LengthScore]]) -> Figure:
    """Draws BLEU on the left, one line per network with its 95 % band, and the reference's surprise on the right."""
    figure, (axis, costs) = panels(1, 2, (12.0, 4.8), "Quality against the length of the source")
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
        costs.plot(
            xs, [one.surprise for one in scores], color=colour[label], marker=mark[label], markersize=5,
            linewidth=1.7, label=label,
        )  # fmt: skip
    first = next(iter(every.values()))
    for panel, unit in ((axis, "BLEU"), (costs, "surprise by the reference, nats per character")):
        panel.set_xticks(
            [one.mean for one in first],
            [f"{span(one)}\n{one.sentences:,}" for one in first],
        )
        panel.set_xlabel("words of the source; sentences of that length below", fontsize=9)
        panel.set_ylabel(unit, fontsize=9)
        clean(panel)
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False, fontsize=9)
    return figure


def span(one: LengthScore) -> str:
    """`6-10`."""
    return f"{one.low}" if one.low == one.high else f"{one.low}-{one.high}"


def caption(every: Mapping[str, Sequence[LengthScore]]) -> str:
    """Describes how each network changes from the shortest sentences to the longest."""
    parts = []
    for label, scores in every.items():
        first, last = scores[0], scores[-1]
        if first is last:
            parts.append(f"{label} {first.bleu.score:.1f} BLEU, {first.surprise:.2f} nats at {span(first)} words")
        else:
            change = last.bleu.score - first.bleu.score
            parts.append(
                f"{label} {first.bleu.score:.1f} to {last.bleu.score:.1f} BLEU ({change:+.1f}), "
                f"{first.surprise:.2f} to {last.surprise:.2f} nats"
            )
    first, last = next(iter(every.values()))[0], next(iter(every.values()))[-1]
    return f"From sources of {span(first)} words to those of {span(last)}: " + "; ".join(parts) + "."
