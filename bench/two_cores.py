"""What `minutes` and `hour` share: which corpus they were asked for, and two works at once, a core each."""

import argparse
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from bench.english_text import CORPORA

T = TypeVar("T")


def corpus_arguments(name: str, pair: str) -> argparse.ArgumentParser:
    """--corpus, --pair and --seed of `python -m bench NAME`."""
    parser = argparse.ArgumentParser(prog=f"python -m bench {name}")
    parser.add_argument("--corpus", default="multi30k", help="a folder of the corpora that conf/corpus/ has a file for")
    parser.add_argument("--pair", default=pair)
    parser.add_argument("--seed", type=int, default=1)
    return parser


def corpus_overrides(name: str, corpus: str) -> list[str]:
    """What chooses the corpus in a command's configuration; the benchmark ends where it is not there."""
    root = CORPORA / corpus
    if not root.is_dir():
        sys.exit(f"bench {name}: --corpus={corpus}: there is no {root}")
    return [f"corpus={corpus}", f"corpus.root={root}", "cluster.backend=local"]


def train_command(common: list[str], name: str, *more: str) -> list[str]:
    """A training that stays out of the registry and translates nothing on the way."""
    return ["dragoman", "train", *common, f"name={name}", "registry.register=false", "train.bleu_every=0", *more]


def two_cores(name: str) -> tuple[int, int]:
    """Two cores that this process may use; the benchmark ends where there is one."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        sys.exit(f"bench {name}: needs two cores, one for each of two works at once")
    return cores[0], cores[1]


def at_once(cores: tuple[int, int], first: Callable[[], T], second: Callable[[], T]) -> tuple[T, T]:
    """What both give, each on a core of its own; the processes that a thread starts have the cores that it has."""

    def pinned(work: Callable[[], T], core: int) -> T:
        os.sched_setaffinity(0, {core})
        return work()

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.submit(pinned, first, cores[0]), pool.submit(pinned, second, cores[1])
        return one.result(), other.result()
