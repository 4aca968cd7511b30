"""Our training with OpenMP threads, beside a process that keeps one core busy, and without: in a process of its own,
since OpenMP reads how long its threads spin when it is loaded. `python -m bench.busy SHARDS STEPS THREADS WARM_UP`.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.peers import ROOT
from bench.result import Result, in_turns
from dragoman.model import openmp

LIBRARYS_OWN = "300000"  # rounds that libgomp spins for by itself


def compare_waiting(shards: Path, steps: int, threads: int, rounds: int, warm_up: int) -> None:
    """Print the lines `train-idle` and `train-busy`: ours against ours with the library's own way of waiting.

    Beside a busy core, a step with that takes half a minute.
    """

    def speed(steps: int, threads: int, spins: str | None = None) -> float:
        return speed_of(shards, steps, threads, warm_up, spins)

    def beside(steps: int, threads: int, spins: str | None = None) -> float:
        with busy_core():
            return speed(steps, threads, spins)

    found = in_turns(
        rounds,
        idle=lambda: speed(steps, threads),
        idle_openmp=lambda: speed(steps, threads, LIBRARYS_OWN),
        idle_one_thread=lambda: speed(steps, 1),
        busy=lambda: beside(steps, threads),
        busy_openmp=lambda: beside(max(1, steps // 3), threads, LIBRARYS_OWN),
        busy_one_thread=lambda: beside(steps, 1),
    )
    for name, value in found.items():
        print(f"{name:<15} {value:10,.0f} target tokens/s")
    for case in ("idle", "busy"):
        print(Result(f"train-{case}", found[case], found[f"{case}_openmp"], "", "baseline").line())


def speed_of(shards: Path, steps: int, threads: int, warm_up: int, spins: str | None = None) -> float:
    """Target tokens/s of our training, with `spins` rounds of spinning in the place of our own number."""
    environment = {**os.environ, **({} if spins is None else {openmp.SPINS: spins})}
    words = [sys.executable, "-m", "bench.busy", str(shards), str(steps), str(threads), str(warm_up)]
    out = subprocess.run(words, check=True, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True).stdout
    return float(out.split()[-1])


@contextlib.contextmanager
def busy_core() -> Iterator[None]:
    """A process that computes without end, for the length of the block."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            yield
        finally:
            other.kill()


def main(shards: Path, steps: int, threads: int, warm_up: int) -> float:
    """Target tokens/s of our loop in this process."""
    import torch

    from bench.trainer import TINY, default_precision, training_speed

    torch.set_num_threads(threads)
    return training_speed(shards, steps, default_precision(TINY), warm_up=warm_up)


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
