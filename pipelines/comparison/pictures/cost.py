"""Time and memory of a layer against the sequence's length, measured, with fitted curves and their crossing."""

from collections.abc import Sequence

from dragoman.pipelines.comparison.costs import LayerCost, crossing, theory
from dragoman.pipelines.tracking.plots import BLUE, GREEN, GREY, ORANGE, Figure, clean, panels

PURPLE = "#7a4fa3"
COLOURS, MARKS = (BLUE, GREEN, PURPLE, GREY, ORANGE), ("o", "s", "v", "d", "^")


def draw(every: Sequence[LayerCost], width: int, device: str) -> Figure:
    """Points are measured, dashed lines fitted: n d^2 for the recurrent ones, n d^2 and n^2 d for attention."""
    figure, axes = panels(1, 2, (11.0, 4.8), f"One layer of width {width}, forwards and backwards, on {device}")
    for axis, what, unit, scale in (
        (axes[0], "seconds", "milliseconds a sequence", 1e3),
        (axes[1], "kept", "MiB kept for the backward pass, a sequence", 2.0**-20),
    ):
        for one, colour, mark in zip(every, COLOURS, MARKS, strict=False):
            values = getattr(one, what)
            axis.plot(one.lengths, [value * scale for value in values], mark, color=colour, label=one.label, ms=5)
            law = "n d²" if one.recurrent else "n d² + n² d"
            law = law if what == "seconds" else law.replace(" d²", " d").replace("n² d", "n²")
            axis.plot(
                one.lengths, theory(one, values) * scale, "--", color=colour, linewidth=1.1, label=f"a fit of {law}"
            )
        axis.axvline(width, color=GREY, linewidth=0.9, linestyle=":")
        axis.annotate(
            "n = d", (width, 0.02), (3, 0), xycoords=("data", "axes fraction"), textcoords="offset points",
            fontsize=8, color=GREY,
        )  # fmt: skip
        attention = every[-1]
        for other in every[:-1]:
            met = crossing(attention, other, what)
            if met is not None:
                axis.axvline(met, color=COLOURS[list(every).index(other)], linewidth=0.9, alpha=0.6)
                axis.annotate(
                    f"{round(met):,}", (met, 0.97), (3, 0), xycoords=("data", "axes fraction"),
                    textcoords="offset points", fontsize=8, color=COLOURS[list(every).index(other)], va="top",
                )  # fmt: skip
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(every[0].lengths, [f"{n:,}" for n in every[0].lengths])
        axis.set_xlabel("n, tokens of a sequence", fontsize=9)
        axis.set_ylabel(unit, fontsize=9)
        clean(axis)
        axis.legend(frameon=False, fontsize=7.5)
    return figure


def caption(every: Sequence[LayerCost], width: int) -> str:
    """Describes where attention becomes more expensive."""
    attention = every[-1]
    parts = []
    for other in every[:-1]:
        for what, word in (("seconds", "time"), ("kept", "memory")):
            met = crossing(attention, other, what)
            longest, ratio = attention.lengths[-1], getattr(attention, what)[-1] / getattr(other, what)[-1]
            if met is not None:
                parts.append(f"self-attention takes more {word} than the {other.label} from n = {round(met):,} on")
            else:
                parts.append(
                    f"self-attention and the {other.label} do not cross for good in {word} up to n = {longest:,}; "
                    f"at {longest:,} self-attention takes {ratio:.2g} times as much"
                )
    found = "; ".join(parts)
    return f"{found[:1].upper()}{found[1:]}. Theory (n d^2 = n^2 d) has them meet at n = d = {width}."
