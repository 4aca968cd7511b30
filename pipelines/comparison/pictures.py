"""Pictures of a comparison, each drawn and described; one colour per network, the same in all of them."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.model.alignment.attention_map import AttentionMap
from dragoman.model.durations import duration
from dragoman.pipelines.comparison.alignments import SentenceMaps, sharpness
from dragoman.pipelines.comparison.measures import TrainingRecord
from dragoman.pipelines.comparison.table import amount
from dragoman.pipelines.evaluation.significance import Interval
from dragoman.pipelines.evaluation.word_vectors.plots import PALETTE
from dragoman.pipelines.tracking.plots import Figure, clean, empty, panels

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


@dataclass
class LengthScore:
    """The scores of sentences of similar length."""

    low: int  # source words of the shortest and the longest
    high: int
    sentences: int
    mean: float  # words of the source
    bleu: Interval
    surprise: float  # nats per character of the reference, by teacher forcing


def styles(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns a colour and a marker for each label, since not everyone can tell lines apart by colour."""
    return {
        label: {"color": PALETTE[place % len(PALETTE)], "marker": MARKERS[place % len(MARKERS)], "label": label}
        for place, label in enumerate(labels)
    }


def picture(name: str, section: str, title: str, text: str, alt: str, figure: Figure) -> Picture:
    """Returns the figure as a PNG with its texts; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return Picture(name, title, text, alt, buffer.getvalue(), section)


def describe_alignment(every: Mapping[str, AttentionMap]) -> str:
    """Describes the heaviest link of each target word."""
    parts = []
    for label, alignment in every.items():
        pairs = ", ".join(
            f"{alignment.target_tokens[t]} at {alignment.source_tokens[s]}" for s, t in alignment.pairs[:20]
        )
        parts.append(f"{label}: {pairs or 'no word'}")
    return "Looked at most, " + "; ".join(parts) + "."


def describe_heads(maps: SentenceMaps) -> str:
    """Describes the sharpest and the most even head."""
    heads = {
        f"l{layer}h{head}": sharpness(weights)
        for layer, row in enumerate(maps.heads)
        for head, weights in enumerate(row)
    }
    sharp, even = max(heads, key=lambda name: heads[name]), min(heads, key=lambda name: heads[name])
    return (
        f"Sharpest: {sharp} ({heads[sharp]:.2f}); most even: {even} ({heads[even]:.2f}), where 0 is an even spread and "
        f"1 each row on one word alone."
    )


def draw_learning(records: Mapping[str, TrainingRecord], labels: list[str]) -> Figure:
    """Draws the same curves by token and by minute. `labels`: of the whole comparison."""
    figure, axes = panels(1, 2, (10.0, 4.2), "Learning")
    style = styles(labels)
    for axis, unit, place in zip(axes, ("million target tokens", "minutes of training"), (0, 1), strict=True):
        for label, record in records.items():
            points = [(point[place] / (1e6 if place == 0 else 1.0), point[2]) for point in record.validation]
            if points:
                xs, ys = zip(*points, strict=True)
                axis.plot(xs, ys, markersize=3.5, linewidth=1.5, **style[label])
        axis.set_xlabel(unit, fontsize=9)
        axis.set_ylabel("validation loss, nats per token", fontsize=9)
        clean(axis)
        if not axis.lines:
            empty(axis, "no run's journal lies beside these bundles")
    if axes[0].lines:
        if max(record.minutes for record in records.values()) > 20:
            axes[1].xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes[0].legend(frameon=False, fontsize=8)
    return figure


def describe_learning(records: Mapping[str, TrainingRecord]) -> str:
    last = {label: record for label, record in records.items() if record.validation}
    return "; ".join(
        f"{label} ends at {record.validation[-1][2]:.2f} nats per token after {amount(record.tokens)} tokens "
        f"in {duration(60 * record.minutes)}"
        for label, record in last.items()
    )


def draw_length(every: Mapping[str, Sequence[LengthScore]]) -> Figure:
    """Draws BLEU on the left, one line per network with its 95 % band, and the reference's surprise on the right."""
    figure, (axis, costs) = panels(1, 2, (12.0, 4.8), "Quality against the length of the source")
    style = styles(list(every))
    for label, scores in every.items():
        xs = [score.mean for score in scores]
        low, high = [score.bleu.low for score in scores], [score.bleu.high for score in scores]
        axis.fill_between(xs, low, high, color=style[label]["color"], alpha=0.08, linewidth=0)
        axis.plot(xs, [score.bleu.score for score in scores], markersize=5, linewidth=1.7, **style[label])
        costs.plot(xs, [score.surprise for score in scores], markersize=5, linewidth=1.7, **style[label])
    first = next(iter(every.values()))
    for panel, unit in ((axis, "BLEU"), (costs, "surprise by the reference, nats per character")):
        panel.set_xticks([score.mean for score in first], [f"{span(score)}\n{score.sentences:,}" for score in first])
        panel.set_xlabel("words of the source; sentences of that length below", fontsize=9)
        panel.set_ylabel(unit, fontsize=9)
        clean(panel)
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False, fontsize=9)
    return figure


def span(score: LengthScore) -> str:
    """`6-10`."""
    return f"{score.low}" if score.low == score.high else f"{score.low}-{score.high}"


def describe_length(every: Mapping[str, Sequence[LengthScore]]) -> str:
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


def draw_scores(
    labels: Sequence[str],
    scores: Mapping[str, Sequence[Interval]],
    digits: int = 1,
    title: str = "Quality, with 95 % intervals",
) -> Figure:
    """Draws a panel for each unit of `scores`, with one row per network in the order of the comparison."""
    figure, axes = panels(1, len(scores), (10.0, 1.5 + 0.36 * len(labels)), title)
    for axis, (unit, intervals) in zip(axes, scores.items(), strict=True):
        for place, (interval, style) in enumerate(zip(intervals, styles(labels).values(), strict=True)):
            axis.plot(
                [interval.low, interval.high],
                [place, place],
                color=style["color"],
                linewidth=2.2,
                solid_capstyle="butt",
            )
            axis.plot(interval.score, place, "o", color=style["color"], markersize=6)
            axis.annotate(
                f"{interval.score:.{digits}f}", (interval.score, place), (0, 6),
                textcoords="offset points", ha="center", fontsize=8,
            )  # fmt: skip
        axis.set_yticks(range(len(labels)), labels if axis is axes[0] else [""] * len(labels))
        axis.set_ylim(len(labels) - 0.5, -0.6)
        axis.set_xlabel(unit, fontsize=9)
        clean(axis)
        axis.grid(axis="x", color="#e6e8eb", linewidth=0.8)
        axis.grid(axis="y", visible=False)
        axis.margins(x=0.08)
    return figure


def format_interval(interval: Interval) -> str:
    """`31.2 (30.1 to 32.3)`."""
    return f"{interval.score:.1f} ({interval.low:.1f} to {interval.high:.1f})"
