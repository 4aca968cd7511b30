"""The misalignment detector: long runs of lines that are not translations of each other despite equal line counts.

Two histograms of the sample turn each line's similarity (see `similarity`) into a log-likelihood ratio, shuffled
against aligned. A run of lines whose ratios accumulate (a CUSUM test, Page 1954) is a suspect. It is reported only if
its pairs are no more alike than its own lines shifted against each other, so a passage of free translation passes.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dragoman.pipelines.corpus.clean.similarity import CanonicalCorrelation, Floats, fit

LEAST_LINES = 400  # fewer give no reliable estimate: the detector stays silent
SAMPLE_LINES = 16_000
STRIDE = 4  # every 4th line is checked; the ends of a run are then checked line by line
LEAST_RUN = 24  # lines

_BINS = 40  # of similarity from -1 to 1
_SHIFTS = (37, -53, 71, -91)  # lines by which the shuffled pairs are shifted
_MOST = 3.0  # largest log-likelihood ratio of a single line, in either direction
_ALARM = 15.0  # summed ratio of a run, in nats, over every STRIDE-th line
_FALL = 15.0  # the sum must fall by this much before the run ends
_CHANCE = 3.5  # standard errors by which aligned must exceed shifted within a run to clear it
_EDGE = 64  # lines checked on both sides of each end
_SURE = 1.5  # nats: outermost lines that together say no more than this are not named: odds of 4.5 to 1
_NEAR = 3  # lines; shifts up to this are named


@dataclass
class MisalignmentDetector:
    """The estimates from the sample: similarity, and how strongly it indicates shuffled lines."""

    similarity: CanonicalCorrelation
    ratio: Floats  # (_BINS,) log-likelihood ratio by similarity
    separation: float  # share of (aligned, shuffled) pairs of the sample in the right order; 0.5 is chance


@dataclass
class Lines:
    """Some lines of one source, in order."""

    number: npt.NDArray[np.int64]  # (n,) within the source, from 0
    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)


def learn(sample: Lines) -> MisalignmentDetector | None:
    """Fits the detector to lines from all over the corpus; returns None if they are too few."""
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
    """Returns (n,) log-likelihood ratios of the pairs: above 0 means shuffled, below aligned."""
    parity = np.asarray(lines.number % 2)
    left = detector.similarity.project(lines.source, parity, 0)
    right = detector.similarity.project(lines.target, parity, 1)
    return detector.ratio[_bin((left * right).sum(1))]


def suspects(blocks: Iterable[npt.NDArray[np.void]]) -> Iterator[tuple[int, int]]:
    """Yields runs (first line, last line) whose ratios accumulate, from blocks of (`number`, `ratio`) in order."""
    total = peak = 0.0
    first = last = -1
    for lines in blocks:
        for number, ratio in lines.tolist():
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
    """A run of lines of one source, from 0 and with both ends, that are not translations of each other."""

    first: int
    last: int
    shift: int | None = None  # the target is this many lines later (negative: earlier), if that is clear


def settle(
    detector: MisalignmentDetector, run: tuple[int, int], read: Callable[[int, int], Lines]
) -> Misaligned | None:
    """Returns the exact run, or None if a closer check clears it.

    `read(start, stop)` returns the lines of a range that passed the rules.
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
    """Returns, by shift of the target: the pairs' similarity above far shifted ones, and their mean ratio.

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
    """Returns the line at which a run begins (or ends): where its summed ratio peaks, less what is uncertain.

    An aligned line beside a run may look shuffled by chance, but then only by a nat or two.
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
    """Returns (_BINS,) smoothed shares."""
    counts = np.bincount(_bin(similarity), minlength=_BINS).astype(float)
    counts = np.convolve(counts, [0.25, 0.5, 0.25], "same") + 0.5
    shares: npt.NDArray[np.float64] = counts / counts.sum()
    return shares
