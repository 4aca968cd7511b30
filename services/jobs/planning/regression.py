"""Fits positive quantities that are sums of parts, from few points, with honest ranges; a pure function.

A quantity is y = exp(u_group + u_shape + noise) * sum_j exp(theta_j) x_j, with known x: work, layers, one. A prior on
theta and on the groups' effects u has the weight that its width gives it, so one point moves the fit a little, many
move it far, and a point far from all measurements keeps a wide range. The fit is the maximum of the posterior, found by
Gauss-Newton; its inverse Hessian (Laplace) is the spread of theta and the groups.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

STEPS = 12  # of Gauss-Newton
STRIDE = 1.5  # longest move of a parameter in one step
Floats = NDArray[np.float64]
ROBUST = 2.5  # standard deviations beyond which a shape counts less (Huber)


@dataclass(frozen=True)
class Point:
    """A measurement: y at x, for a group and a shape in it, with so many workers."""

    x: tuple[float, ...]
    group: str
    shape: str
    y: float
    workers: int = 1


@dataclass(frozen=True)
class Cell:
    """Measurements that differ only in y."""

    x: tuple[float, ...]
    group: str
    workers: int
    count: int
    mean: float  # of log y
    squares: float  # of the differences of log y from the mean


@dataclass(frozen=True)
class Prior:
    """Means and standard deviations, all of logarithms."""

    means: tuple[float, ...]
    spreads: tuple[float, ...]
    group: float  # standard deviation of a group's effect
    shape: float  # of a shape's effect
    noise: float  # of repeated measurements, as assumed before any


@dataclass(frozen=True)
class Spread:
    """A prediction: mean and variance of log y."""

    mean: float
    variance: float


class Fit:
    """The fit to a prior and points."""

    def __init__(self, prior: Prior, points: Sequence[Point]) -> None:
        self.prior, self._shapes = prior, _cells(points)
        cells = [cell for alike in self._shapes.values() for cell in alike]
        free = 4 + sum(cell.count - 1 for cell in cells)  # the prior counts as four repetitions
        self.noise = (4 * prior.noise**2 + sum(cell.squares for cell in cells)) / free
        self._groups = {name: index for index, name in enumerate(dict.fromkeys(cell.group for cell in cells))}
        rest = len(self._groups)
        means = np.array([*prior.means, *([0.0] * rest)])
        weights = np.array([*prior.spreads, *([prior.group] * rest)]) ** -2
        self._theta, self._precision = means, np.diag(weights)
        for _ in range(STEPS if cells else 0):
            matrix, vector = np.diag(weights), weights * (means - self._theta)
            for alike in self._shapes.values():
                residual, variance, slope = self._shape(alike)
                weight = min(1.0, ROBUST * variance**0.5 / max(abs(residual), 1e-9)) / variance
                vector += weight * residual * slope
                matrix += weight * np.outer(slope, slope)
            self._precision = matrix
            move = np.linalg.solve(matrix, vector)
            self._theta = self._theta + np.clip(move, -STRIDE, STRIDE)
            if abs(move).max() < 1e-3:
                break

    def predict(
        self, x: Sequence[float], group: str, shape: str, alike: Callable[[int], tuple[Sequence[float], float]]
    ) -> Spread:
        """Returns the prediction of a new measurement at `x`.

        `alike` maps the number of workers of a measurement with the same shape to its x, as far as they determine it,
        and to the extra variance that it has for this prediction.
        """
        mean, slope = self._mean(x, group)
        variance = float(slope @ np.linalg.solve(self._precision, slope)) + self.prior.shape**2
        if group not in self._groups:
            variance += self.prior.group**2
        total = weighted = 0.0
        for cell in self._shapes.get(shape, ()):
            place, noise = alike(cell.workers)
            weight = cell.count / (self.noise + noise)
            total += weight
            weighted += weight * (cell.mean - self._mean(place, group)[0])
        kept = 1 / (1 / variance + total)  # variance of the shape's own effect after its own measurements
        return Spread(mean + kept * weighted, kept + self.noise)

    def _shape(self, alike: Sequence[Cell]) -> tuple[float, float, Floats]:
        """Returns (mean residual, its variance, mean slope) of one shape's points."""
        count = sum(cell.count for cell in alike)
        points = [(cell.count / count, cell.mean, self._mean(cell.x, cell.group)) for cell in alike]
        residual = sum(share * (measured - mean) for share, measured, (mean, _) in points)
        slope: Floats = np.sum([share * own for share, _, (_, own) in points], axis=0)
        return residual, self.prior.shape**2 + self.noise / count, slope

    def _mean(self, x: Sequence[float], group: str) -> tuple[float, Floats]:
        """Returns (log y, its slope over all parameters) without a shape's own effect."""
        slope = np.zeros(len(self._theta))
        parts = np.exp(self._theta[: len(x)]) * x
        total = max(float(parts.sum()), 1e-300)
        slope[: len(x)] = parts / total
        effect = 0.0
        if group in self._groups:
            place = len(x) + self._groups[group]
            effect, slope[place] = float(self._theta[place]), 1.0
        return log(total) + effect, slope


def _cells(points: Sequence[Point]) -> dict[str, list[Cell]]:
    """Returns shape -> its measurements."""
    values: dict[tuple[str, tuple[float, ...], str, int], list[float]] = {}
    for point in points:
        if point.y > 0:
            values.setdefault((point.shape, point.x, point.group, point.workers), []).append(log(point.y))
    cells: dict[str, list[Cell]] = {}
    for (shape, x, group, workers), logs in values.items():
        mean = sum(logs) / len(logs)
        squares = sum((value - mean) ** 2 for value in logs)
        cells.setdefault(shape, []).append(Cell(x, group, workers, len(logs), mean, squares))
    return cells
