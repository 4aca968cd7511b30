"""Exact counts of more words than fit in memory: a bounded table spills sorted runs, which are merged at the end.

A run is a text file of `unit TAB count` lines, sorted by unit in code point order. Runs add up, so the counts do not
depend on how the text was divided or how often a table spilled.
"""

import heapq
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from dragoman.model.files import atomic_open

TABLE_BYTES = 128 << 20  # approximate size of a table
ENTRY_BYTES = 110  # of an entry besides the unit's own characters: the string header, the number, its table slot
MOST_RUNS = 64  # open at a time

Entry = tuple[str, int]


class BoundedCounts:
    """Counts of units, which contain neither TAB nor line feed, in about `most_bytes` of memory.

    The rest goes to files beside `path`; `finish` leaves one sorted run at `path`.
    """

    def __init__(self, path: Path, most_bytes: int | None = None) -> None:
        self.path = path
        self.most_bytes = most_bytes or TABLE_BYTES
        self.table: dict[str, int] = {}
        self.bytes = 0
        self.spilled: list[Path] = []
        self._files = 0

    def add(self, counts: Mapping[str, int]) -> None:
        """Adds to the count of each unit."""
        table = self.table
        for unit, number in counts.items():
            if unit in table:
                table[unit] += number
                continue
            table[unit] = number
            self.bytes += ENTRY_BYTES + len(unit)
            if self.bytes > self.most_bytes:
                self._spill()
                table = self.table

    def finish(self) -> Path:
        """Writes all counts as one run and removes everything else."""
        self.spilled = reduce_runs(self.spilled, self._next_path)
        write_run(self.path, merge_runs([*map(read_run, self.spilled), sorted(self.table.items())]))
        for path in self.spilled:
            path.unlink()
        self.table, self.bytes, self.spilled = {}, 0, []
        return self.path

    def _spill(self) -> None:
        path = self._next_path()
        write_run(path, sorted(self.table.items()))
        self.spilled.append(path)
        self.table, self.bytes = {}, 0

    def _next_path(self) -> Path:
        self._files += 1  # the suffix: a resumed run finds and removes what a killed process left by it
        return self.path.with_name(f"{self.path.name}.{os.getpid()}-{self._files}.part")


def write_run(path: Path, entries: Iterable[Entry]) -> None:
    """Writes sorted entries as a run, atomically."""
    with atomic_open(path, durable=False) as file:
        waiting: list[str] = []
        for unit, number in entries:
            waiting.append(f"{unit}\t{number}\n")
            if len(waiting) == 8192:
                file.write("".join(waiting).encode())
                waiting.clear()
        file.write("".join(waiting).encode())


def read_run(path: Path) -> Iterator[Entry]:
    """Yields the entries of a run, in order."""
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
    """Merges the runs into `target`, unless that was done before; opens at most MOST_RUNS at a time."""
    if target.exists():
        return target
    made: list[Path] = []

    def next_path() -> Path:
        made.append(target.with_name(f"{target.name}.{os.getpid()}-{len(made)}.part"))
        return made[-1]

    try:
        few = reduce_runs(list(paths), next_path, keep=set(paths))
        write_run(target, merge_runs([read_run(path) for path in few]))
    finally:
        for path in made:
            path.unlink(missing_ok=True)
    return target


def reduce_runs(paths: list[Path], next_path: Callable[[], Path], keep: Iterable[Path] = ()) -> list[Path]:
    """Merges down to at most MOST_RUNS runs; deletes merged inputs unless they are in `keep`."""
    kept = set(keep)
    while len(paths) > MOST_RUNS:
        group, paths = paths[:MOST_RUNS], paths[MOST_RUNS:]
        path = next_path()
        write_run(path, merge_runs([read_run(each) for each in group]))
        paths.append(path)
        for each in group:
            if each not in kept:
                each.unlink()
    return paths
