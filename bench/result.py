"""What every benchmark returns, and the line that it ends with."""

import statistics
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
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


def step_by_step(
    first: Callable[[Callable[[], None]], int], second: Callable[[Callable[[], None]], int]
) -> tuple[float, float]:
    """What each of two works counts, a second of its own: they go on by turns, one step each, so that whatever slows
    the machine slows both. A work calls what it is given after every step; what follows the last is not counted."""
    works, gates = (first, second), (threading.Semaphore(1), threading.Semaphore(0))
    seconds, ended = [0.0, 0.0], [False, False]

    def go(me: int) -> int:
        other = 1 - me
        gates[me].acquire()
        began = time.perf_counter()

        def pass_on() -> None:
            nonlocal began
            seconds[me] += time.perf_counter() - began
            if not ended[other]:
                gates[other].release()
                gates[me].acquire()
            began = time.perf_counter()

        try:
            return works[me](pass_on)
        finally:
            ended[me] = True
            gates[other].release()

    with ThreadPoolExecutor(2) as pool:
        counts = list(pool.map(go, (0, 1)))
    return counts[0] / seconds[0], counts[1] / seconds[1]


def rate(work: Callable[[], int], clock: Callable[[], float] = time.perf_counter) -> float:
    """What `work` counts, a second of the clock: wall time, or with time.process_time that of one core."""
    began = clock()
    count = work()
    return count / (clock() - began)
