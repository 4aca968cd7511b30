"""Similarity of sentences in two languages as translations, learnt from the corpus itself.

A sentence becomes a vector of hashed word beginnings, digits, punctuation and length. Canonical correlation analysis
(Hotelling 1936) finds the directions in which the two sides of a sample agree, and the similarity of a pair is the
cosine of its two projections. This needs no dictionary and assumes no language: names, numbers, cognates and frequent
words all correlate. The sample is split by the parity of the line number, and each half is scored by the other half's
projections, so that a pair never influences its own score.

The matrices are small: one BLAS thread is faster than many that wait for each other, and sums do not depend on the
number of cores.

F features, K directions, n lines.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

Floats = npt.NDArray[np.float32]

BUCKETS = 128  # of hashed word beginnings
DIRECTIONS = 64  # K
_PREFIX = 4  # bytes of a word to hash: enough for stems and cognates
_RIDGE = 1.0  # of the mean variance
_MARKS = b'?!,:;"().0123456789-%/'  # each is counted by itself; ASCII capitals are counted together
_PADDING = b"\n" * (_PREFIX + 1)


def _byte_tables() -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    folded = np.arange(256, dtype=np.uint32)
    folded[ord("A") : ord("Z") + 1] += 32
    marks = np.full(256, -1)
    marks[list(_MARKS)] = np.arange(len(_MARKS))
    marks[ord("A") : ord("Z") + 1] = len(_MARKS)
    starts = np.zeros(256, bool)
    starts[0xE3:0xEE] = True  # first bytes of Chinese, Japanese, Korean: each character counts as a word
    return folded, marks, starts


_FOLDED, _MARK, _WORD_BYTE = _byte_tables()
_SALTS = np.array([0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2F], np.uint32)
FEATURES = BUCKETS + len(_MARKS) + 2  # F


def features(lines: Sequence[str]) -> Floats:
    """Returns (n, F): counts of hashed word beginnings (at most 3) and marks (at most 4), and the log of the length."""
    count = len(lines)
    data = np.frombuffer(b"\n" + "\n".join(lines).encode() + _PADDING, np.uint8)
    ends = np.flatnonzero(data == 0x0A)[1 : count + 1]
    gap = data <= 0x20
    head = data.size - _PREFIX
    starts = np.flatnonzero((gap[: head - 1] | _WORD_BYTE[data[1:head]]) & ~gap[1:head]) + 1

    folded = _FOLDED[data] + np.uint32(1)
    hashed = folded[starts] * _SALTS[0]
    alive = np.ones(len(starts), bool)
    for place in range(1, _PREFIX):
        alive &= ~gap[starts + place]
        hashed += folded[starts + place] * _SALTS[place] * alive
    hashed ^= hashed >> np.uint32(15)
    hashed *= np.uint32(0x2C1B3C6D)
    hashed ^= hashed >> np.uint32(13)

    words = _count_values(np.searchsorted(starts, ends), hashed % BUCKETS, BUCKETS)
    places = np.flatnonzero(_MARK[data] >= 0)
    marks = _count_values(np.searchsorted(places, ends), _MARK[data[places]], len(_MARKS) + 1)
    length = np.log(np.diff(ends, prepend=0) + 5.0)
    return np.concatenate([np.minimum(words, 3), np.minimum(marks, 4), length[:, None]], axis=1, dtype=np.float32)


def _count_values(bounds: npt.NDArray[np.int64], values: npt.NDArray[np.integer], kinds: int) -> npt.NDArray[np.int64]:
    """Returns (n, kinds), counts of each value per line; line i holds values[bounds[i - 1] : bounds[i]]."""
    count = len(bounds)
    line = np.repeat(np.arange(count), np.diff(bounds, prepend=0))
    return np.bincount(line * kinds + values[: len(line)], minlength=count * kinds).reshape(count, kinds)


@dataclass
class CanonicalCorrelation:
    """The fit to a sample: per parity the means, deviations and projections of both sides."""

    mean: Floats  # (2 parities, 2 sides, F)
    deviation: Floats  # (2, 2, F)
    projection: Floats  # (2, 2, F, K)

    def project(self, lines: Sequence[str], parity: npt.NDArray[np.integer], side: int) -> Floats:
        """Returns (n, K) unit vectors; `parity` (n,) of the line numbers picks the projection fitted without it."""
        values = features(lines)
        result = np.empty((len(lines), self.projection.shape[-1]), np.float32)
        with _one_thread():
            for half in (0, 1):
                rows = parity == half
                scaled = (values[rows] - self.mean[half, side]) / self.deviation[half, side]
                result[rows] = scaled @ self.projection[half, side]
        result /= np.linalg.norm(result, axis=1, keepdims=True) + 1e-9
        return result


def fit(source: Sequence[str], target: Sequence[str], parity: npt.NDArray[np.integer]) -> CanonicalCorrelation:
    """Fits to a sample of pairs, most of which are aligned; both parities must occur."""
    sides = [features(source), features(target)]
    mean, deviation = (np.empty((2, 2, FEATURES), np.float32) for _ in range(2))
    projection = np.empty((2, 2, FEATURES, DIRECTIONS), np.float32)
    for half in (0, 1):
        rows = parity != half  # the other half fits what scores this half
        scaled = []
        for side, values in enumerate(sides):
            mean[half, side] = values[rows].mean(0)
            deviation[half, side] = values[rows].std(0) + 1e-3
            scaled.append((values[rows] - mean[half, side]) / deviation[half, side])
        with _one_thread():
            projection[half, 0], projection[half, 1] = _find_directions(scaled[0], scaled[1])
    return CanonicalCorrelation(mean, deviation, projection)


def _find_directions(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Returns the K most correlated directions of two standardised samples (n, F), each weighted by its correlation."""
    whiten = [_inverse_root(side.T @ side / np.float32(len(side))) for side in (left, right)]
    u, strength, v = np.linalg.svd(whiten[0] @ (left.T @ right / len(left)) @ whiten[1])
    weight = np.sqrt(strength[:DIRECTIONS])
    return whiten[0] @ u[:, :DIRECTIONS] * weight, whiten[1] @ v[:DIRECTIONS].T * weight


def _inverse_root(covariance: Floats) -> Floats:
    """Returns the inverse square root of a covariance (F, F), with a ridge that limits rare features."""
    size = len(covariance)
    values, vectors = np.linalg.eigh(covariance + _RIDGE * np.trace(covariance) / size * np.eye(size, dtype=np.float32))
    root: Floats = (vectors / np.sqrt(values)) @ vectors.T
    return root


def _one_thread() -> AbstractContextManager[object]:
    limits: AbstractContextManager[object] = threadpool_limits(limits=1, user_api="blas")
    return limits
