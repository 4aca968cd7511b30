"""Exact counts of more words than fit in memory: sorted runs of some blocks each, which are merged.

A run is a text file of `unit TAB count` lines, sorted by unit in code point order. Runs add up, so the counts do not
depend on how the text was divided. A task's blocks hold at most 16 MiB of text, and so does its table.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dragoman.model.files import atomic_open

MOST_RUNS = 64  # open at a time

Entry = tuple[str, int]


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
