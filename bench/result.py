"""What every benchmark returns, and the line that it ends with."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Result:
    """One figure of ours against the peer's, in the same unit, from the same run."""

    name: str
    ours: float
    peer: float
    unit: str

    def line(self) -> str:
        """The last line of the output: `NAME ours=... peer=... ratio=...`."""
        ratio = self.ours / self.peer if self.peer else float("inf")
        return f"{self.name} ours={self.ours:.4g} peer={self.peer:.4g} ratio={ratio:.3g}"


def in_turns(rounds: int, **measures: Callable[[], float]) -> dict[str, float]:
    """The median of `rounds` calls of each measure, taken in turns, so that a busy moment hits all of them alike."""
    found: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            found[name].append(measure())
    return {name: statistics.median(values) for name, values in found.items()}


def rate(work: Callable[[], int]) -> float:
    """What `work` counts, a second of wall time."""
    began = time.perf_counter()
    count = work()
    return count / (time.perf_counter() - began)
