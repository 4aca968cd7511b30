"""What every benchmark returns, and the line that it ends with."""

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar


@dataclass
class Result:
    """One figure of ours against another in the same unit, from the same run."""

    name: str
    ours: float
    other: float
    unit: str
    against: Literal["peer", "baseline"] = "peer"  # somebody else's program; or ours in another way, or the machine

    def line(self) -> str:
        """The last line of the output: `NAME ours=... peer=... ratio=...`, or with `baseline=`."""
        ratio = self.ours / self.other if self.other else float("inf")
        return f"{self.name} ours={self.ours:.4g} {self.against}={self.other:.4g} ratio={ratio:.3g}"


def in_turns(rounds: int, **measures: Callable[[], float]) -> dict[str, float]:
    """The median of `rounds` calls of each measure, taken in turns, so that a busy moment hits all of them alike."""
    found: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            found[name].append(measure())
    return {name: statistics.median(values) for name, values in found.items()}


Setting = TypeVar("Setting")


def best_setting(peer: str, settings: Iterable[Setting], speed: Callable[[Setting], float]) -> Setting:
    """The setting in which a peer is fastest on this machine, by a short try of each; prints every try.

    A peer runs at its best: bf16 on a processor without its instructions is slower by twenty times, and more threads
    are not always quicker."""
    tried = [(speed(setting), setting) for setting in settings]
    for value, setting in tried:
        print(f"{peer}, tried {setting}: {value:,.4g}", flush=True)
    return max(tried, key=lambda one: one[0])[1]


def rate(work: Callable[[], int], clock: Callable[[], float] = time.perf_counter) -> float:
    """What `work` counts, a second of the clock: wall time, or with time.process_time that of one core."""
    began = clock()
    count = work()
    return count / (clock() - began)
