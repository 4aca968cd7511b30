"""The misalignment detector: long runs of lines that are not each other's translation although the line counts agree.

Each line's similarity (see `similarity`) becomes a log-likelihood ratio, shuffled against aligned, by two histograms of
the sample. A run of lines where the ratios pile up (a CUSUM test, Page 1954) is a suspect; it is reported only if its
pairs are also no more alike than its own lines shifted against each other: a stretch of free translation passes.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pipelines.corpus.similarity import CanonicalCorrelation, Floats, fit

LEAST_LINES = 400  # fewer teach nothing reliable: the detector keeps silent
SAMPLE_LINES = 16_000
STRIDE = 4  # every 4th line is looked at; the ends of a found run are then looked at line by line
LEAST_RUN = 24  # lines

_BINS = 40  # of similarity from -1 to 1
_SHIFTS = (37, -53, 71, -91)  # lines; which lines a shuffled pair is made of
_MOST = 3.0  # a single line's log-likelihood ratio, either way
_ALARM = 15.0  # summed ratio of a run, in nats, with every STRIDE-th line counted
_FALL = 15.0  # how far the sum falls again before the run counts as over
_CHANCE = 3.5  # standard errors by which aligned must beat shifted within a run to clear it
_EDGE = 64  # lines looked at on both sides of each end
_SURE = 1.5  # nats: outermost lines that do not say more than this, together, are not named: 4.5 to 1
_NEAR = 3  # lines; slips up to this are named


@dataclass
class MisalignmentDetector:
    """What the sample taught: similarity, and how much a similarity speaks for shuffled lines."""

    similarity: CanonicalCorrelation
    ratio: Floats  # (_BINS,) log-likelihood ratio by similarity
    separation: float  # share of (aligned, shuffled) pairs of the sample in the right order; 0.5 is blind


@dataclass
class Lines:
    """Some lines of one source, in order."""

    number: npt.NDArray[np.int64]  # (n,) within the source, from 0
    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)


def learn(sample: Lines) -> MisalignmentDetector | None:
    """The detector of a corpus from lines spread all over it; None where they are too few."""
    if len(sample.source) < LEAST_LINES:
        return None
    parity = np.asarray(sample.number % 2)
    if min(parity.sum(), len(parity) - parity.sum()) < LEAST_LINES // 4:
        parity = np.arange(len(parity)) % 2
    similarity = fit(sample.source, sample.target, parity)
    left = similarity.project(sample.source, parity, 0)
    right = similarity.project(sample.target, parity, 1)
    aligned, shuffled = [], []
    for half in (0, 1):
        a, b = left[parity == half], right[parity == half]
        aligned.append((a * b).sum(1))
        shuffled += [(a * np.roll(b, shift, axis=0)).sum(1) for shift in _SHIFTS]
    good, bad = np.concatenate(aligned), np.concatenate(shuffled)
    ratio = np.log(_histogram(bad)) - np.log(_histogram(good))
    order = np.searchsorted(np.sort(bad), good)
    return MisalignmentDetector(
        similarity, np.clip(ratio, -_MOST, _MOST).astype(np.float32), float(order.mean() / len(bad))
    )


def ratios(detector: MisalignmentDetector, lines: Lines) -> Floats:
    """(n,) log-likelihood ratio of each pair: above 0 speaks for shuffled, below for aligned."""
    parity = np.asarray(lines.number % 2)
    left = detector.similarity.project(lines.source, parity, 0)
    right = detector.similarity.project(lines.target, parity, 1)
    return detector.ratio[_bin((left * right).sum(1))]


def suspects(lines: Iterable[tuple[npt.NDArray[np.int64], Floats]]) -> Iterator[tuple[int, int]]:
    """Runs (first line, last line) where the ratios pile up, from blocks of (line numbers, ratios) in order."""
    total = peak = 0.0
    first = last = -1
    for numbers, each in lines:
        for number, ratio in zip(numbers.tolist(), each.tolist(), strict=True):
            if total <= 0.0:
                total, peak, first = 0.0, 0.0, number
            total += ratio
            if total > peak:
                peak, last = total, number
            if total <= 0.0 or total < peak - _FALL:
                if peak > _ALARM:
                    yield first, last
                total = 0.0
    if peak > _ALARM and total > 0.0:
        yield first, last


@dataclass(frozen=True)
class Misaligned:
    """A run of lines of one source, both ends included and counted from 0, that are not each other's translation."""

    first: int
    last: int
    shift: int | None = None  # the target lies this many lines later (negative: earlier), where that is plain


def settle(
    detector: MisalignmentDetector, run: tuple[int, int], read: Callable[[int, int], Lines]
) -> Misaligned | None:
    """The exact run, or None where a closer look clears it.

    `read(start, stop)` gives the lines of a range that passed the rules.
    """
    first, last = run
    first = _edge(detector, read(max(0, first - _EDGE), first + _EDGE), True, first)
    last = _edge(detector, read(max(0, last - _EDGE + 1), last + _EDGE + 1), False, last)
    lines = read(first, min(last + 1, first + 2_048))
    if len(lines.source) < LEAST_RUN:
        return None
    gain, ratio = _compare_shifts(detector, lines)
    best = max(gain, key=lambda shift: gain[shift])
    slipped = best != 0 and gain[best] - gain[0] > _CHANCE
    if gain[0] > _CHANCE and not slipped:
        return None
    return Misaligned(first, last, best if slipped and ratio[best] < 0.0 else None)


def _compare_shifts(detector: MisalignmentDetector, lines: Lines) -> tuple[dict[int, float], dict[int, float]]:
    """By shift of the target: how much more alike than far shifted ones the pairs are, and their mean ratio.

    The first is in standard errors.
    """
    parity = np.asarray(lines.number % 2)
    left = detector.similarity.project(lines.source, parity, 0)
    right = [detector.similarity.project(lines.target, which, 1) for which in (parity, 1 - parity)]

    def at(shift: int) -> Floats:
        moved: Floats = np.roll(right[shift % 2], -shift, axis=0)
        alike: Floats = np.einsum("nk,nk->n", left, moved)
        return alike

    far = np.stack([at(shift) for shift in (5, -7, 8, -10, 11, -12)])
    error = float(far.std()) / len(left) ** 0.5 + 1e-9
    near = {shift: at(shift) for shift in range(-_NEAR, _NEAR + 1)}
    gain = {shift: float(alike.mean() - far.mean()) / error for shift, alike in near.items()}
    return gain, {shift: float(detector.ratio[_bin(alike)].mean()) for shift, alike in near.items()}


def _edge(detector: MisalignmentDetector, lines: Lines, opening: bool, otherwise: int) -> int:
    """The line number at which a run begins (or ends): where its summed ratio is greatest, less what is not sure.

    An aligned line beside a run may look shuffled by chance, and is then no more than a nat or two.
    """
    if not lines.source:
        return otherwise
    each = ratios(detector, lines)
    sums = np.cumsum(each[::-1])[::-1] if opening else np.cumsum(each)
    near = np.flatnonzero(sums >= sums.max() - _SURE)
    return int(lines.number[near[-1] if opening else near[0]])


def _bin(similarity: Floats) -> npt.NDArray[np.int64]:
    return np.clip(((similarity + 1.0) * (_BINS / 2)).astype(np.int64), 0, _BINS - 1)


def _histogram(similarity: Floats) -> npt.NDArray[np.float64]:
    """(_BINS,) smoothed shares."""
    counts = np.bincount(_bin(similarity), minlength=_BINS).astype(float)
    counts = np.convolve(counts, [0.25, 0.5, 0.25], "same") + 0.5
    shares: npt.NDArray[np.float64] = counts / counts.sum()
    return shares
