"""Plots a language model's surprise along a held-out text."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.pipelines.tracking.plots import BLUE, GREY, ORANGE, Figure, clean, panels

BINS = 60
RUNNING = 50  # records in the running mean, at least


def surprise_by_line(surprise: NDArray[np.float64], sizes: NDArray[Any], unit: str, title: str) -> Figure | None:
    """Plots the model's surprise at each record: over the text with its running mean, and as a distribution.

    `surprise` (records,) is in `unit`s times `sizes` (records,). None if no record can be measured.
    """
    counted = np.flatnonzero(sizes)
    if not len(counted):
        return None
    figure, (over, spread) = panels(1, 2, (10.0, 3.8), title)
    values = surprise[counted] / sizes[counted]
    over.plot(counted, values, ".", color=BLUE, alpha=0.25, markersize=2.5)
    width = max(RUNNING, len(counted) // 40)
    if len(counted) > width:
        window = np.ones(width)
        totals, lengths = (np.convolve(each[counted], window, "valid") for each in (surprise, sizes.astype(float)))
        over.plot(
            counted[width // 2 :][: len(totals)], totals / lengths, color=ORANGE, label=f"mean of {width} records"
        )
        over.legend(frameon=False, fontsize=9)
    mean = float(surprise.sum() / sizes.sum())
    over.axhline(mean, color=GREY, linewidth=0.8, linestyle=":")
    over.set_ylim(0, float(np.quantile(values, 0.995)) * 1.1 + 1e-9)
    over.set_xlabel("record", fontsize=9)
    over.set_ylabel(unit, fontsize=9)
    spread.hist(values, BINS, range=over.get_ylim(), color=BLUE, weights=sizes[counted] / sizes.sum())
    spread.axvline(mean, color=GREY, linewidth=0.8, linestyle=":", label=f"all: {mean:.3f}")
    spread.legend(frameon=False, fontsize=9)
    spread.set_xlabel(unit, fontsize=9)
    spread.set_ylabel("share of the text", fontsize=9)
    for axis in (over, spread):
        clean(axis)
    return figure
