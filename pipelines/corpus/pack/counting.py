"""Exact counts of more words than fit in memory: sorted runs of some blocks each, which are merged.

A run is a text file of `unit TAB count` lines, sorted by unit in code point order. Runs add up, so the counts do not
depend on how the text was divided. A task's blocks hold at most 16 MiB of text, and so does its table.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.model.files import atomic_open
from dragoman.pipelines.corpus.pack.packing import Piece, take_pairs
from dragoman.pipelines.corpus.plan.plan import Plan

MOST_RUNS = 64  # open at a time

TASK_BLOCKS = 8  # counted together, for fewer and larger runs

Entry = tuple[str, int]


@dataclass(frozen=True)
class Group:
    """The training text of some adjacent blocks, which is counted together."""

    number: int
    pieces: tuple[Piece, ...]

    def texts(self, clean: Path, plan: Path) -> Iterator[list[str]]:
        """Yields the texts of each block, from the folders of clean blocks and of codes."""
        return (take_pairs(clean, plan, "train", piece)[0] for piece in self.pieces)


def groups_of(plan: Plan) -> list[Group]:
    """Returns all training text of one language in groups."""
    pieces = [Piece(block, 0, count) for block, count in enumerate(plan.kept["train"]) if count]
    starts = range(0, len(pieces), TASK_BLOCKS)
    return [Group(number, tuple(pieces[start : start + TASK_BLOCKS])) for number, start in enumerate(starts)]


def write_run(path: Path, entries: Iterable[Entry]) -> Path:
    """Writes sorted entries, whose units contain neither TAB nor line feed, atomically; returns the path."""
    with atomic_open(path, durable=False) as file:
        waiting: list[str] = []
        for unit, number in entries:
            waiting.append(f"{unit}\t{number}\n")
            if len(waiting) == 8192:
                file.write("".join(waiting).encode())
                waiting.clear()
        file.write("".join(waiting).encode())
    return path


def read_run(path: Path) -> Iterator[Entry]:
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            unit, _, number = line.rpartition("\t")
            yield unit, int(number)


def merge_runs(runs: Sequence[Iterable[Entry]]) -> Iterator[Entry]:
    """Merges the entries of several sorted runs: yields every unit once, in order, with its sum."""
    unit, total = "", 0
    for other, number in runs[0] if len(runs) == 1 else heapq.merge(*runs):
        if other == unit:
            total += number
            continue
        if total:
            yield unit, total
        unit, total = other, number
    if total:
        yield unit, total


def merged_files(paths: Sequence[Path], target: Path) -> Path:
    """Merges the runs into `target`, unless that was done before; more than MOST_RUNS by files beside it."""
    if target.exists():
        return target
    while len(paths) > MOST_RUNS:
        starts = range(0, len(paths), MOST_RUNS)
        paths = [
            merged_files(paths[start : start + MOST_RUNS], target.with_name(f"{target.name}-{len(paths)}-{start}"))
            for start in starts
        ]
    return write_run(target, merge_runs([read_run(path) for path in paths]))
