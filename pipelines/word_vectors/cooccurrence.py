"""GloVe's co-occurrence pass: shards -> sorted runs -> one file of entries -> shuffled training segments.

Stays within a memory budget, whatever the text. The folder records the progress: a killed pass resumes, and writes
exactly the files of an undisturbed one, with any budget. A pair at distance n weighs 1 / n, counted in whole units, so
sums are exact and independent of their order. V words; a *cell* is i * V + j.

FOLDER/made-for.json       what is counted; other files here are deleted
FOLDER/run-*.cells         sorted counts of a part of the text; the name gives where in the text the run ends
FOLDER/entries, .json      all runs merged: (i, j, X_ij), with i <= j if symmetric; replaced by the segments
FOLDER/segment-*.entries   the entries in random order, both (i, j) and (j, i)
FOLDER/cooccurrences.json  written last: the segments' sizes

Shuffles a file of records into files of about equal size, with bounded memory.

Two passes (Rao 1961, Sandelius 1962): every record is dealt to a random file, then each file is shuffled by itself. The
result depends only on the records and the seed.
"""

import contextlib
import math
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_open, exclusive, remove_parts
from dragoman.model.word_vectors.counting import cooccurrences
from dragoman.model.word_vectors.glove import Cooccurrences
from dragoman.model.word_vectors.learner import Text
from dragoman.pipelines.corpus.read.scratch import read_json, write_json
from dragoman.pipelines.loaders.window import philox_order

ENTRY = np.dtype([("i", "<i4"), ("j", "<i4"), ("x", "<f4")])
SUMMARY, MARKER, ENTRIES = "cooccurrences.json", "made-for.json", "entries"
CELL, COST = 16, 64  # bytes of a counted cell, and while it is added to others
EXACT_WINDOW = 22  # up to this window 1 / n is a whole number of units for every n
Cells = NDArray[np.int64]  # (n, 2) cell and its count, cells ascending, each once
Records = NDArray[np.void]
AT_ONCE = 1 << 18  # records dealt at a time; it affects the draws, so it is no setting
SAVE_SECONDS = 300.0  # longest time between two runs, so that a kill loses no more
SEGMENT_ENTRIES = 1 << 20  # most entries, 12 MB


class Passage(Protocol):
    """The text to count: pipelines/loaders/segments.py's ShardText, read as its epoch 0."""

    segments: int

    def segment(self, epoch: int, index: int) -> Text: ...


@dataclass(frozen=True)
class Counting:
    """The inputs of a pass; equal inputs give equal results."""

    text: str  # hash or name of the text and of its word numbering
    vocabulary: int  # V
    window: int = 15
    symmetric: bool = True
    seed: int = 1  # for the order of entries


class CooccurrenceFeed:
    """Counted entries as segments, in another order each epoch.

    Raises UserError: the pass was not finished, or a file was changed.
    """

    unit = "entries"

    def __init__(self, folder: Path) -> None:
        self.folder, summary = folder, read_json(folder / SUMMARY)
        if summary is None:
            raise UserError(f"{folder}: no co-occurrences here; the pass over the text was not finished")
        self.sizes: list[int] = summary["sizes"]
        self.segments, self.entries, self.seed = len(self.sizes), sum(self.sizes), int(summary["counting"]["seed"])
        for number, size in enumerate(self.sizes):
            path = segment_path(folder, number)
            actual = path.stat().st_size if path.exists() else 0
            if actual != size * ENTRY.itemsize:
                raise UserError(f"{path}: {actual} bytes instead of {size * ENTRY.itemsize}; delete {folder}")

    def segment(self, epoch: int, index: int) -> Cooccurrences:
        number = int(philox_order(self.segments, self.seed, epoch)[index])
        records = np.fromfile(segment_path(self.folder, number), ENTRY)
        return Cooccurrences(*(np.ascontiguousarray(records[name]) for name in ("i", "j", "x")))

    def size(self, segment: Cooccurrences) -> int:
        return len(segment)


def count_cooccurrences(
    folder: Path,
    text: Passage,
    counting: Counting,
    memory: int,
    report: Callable[[int, int], None] = lambda done, segments: None,
) -> CooccurrenceFeed:
    """Counts co-occurrences, unless that was done before.

    Args:
        folder: belongs to the pass alone; made if missing.
        memory: bytes for counting, merging and shuffling; the text's own chunks come on top.
        report: called after each segment of the text.

    Raises UserError: no words co-occur, another process works in `folder`, or it holds other files.
    """
    with claim_folder(folder):
        if open_folder(folder, {**asdict(counting), "segments": text.segments}):
            return CooccurrenceFeed(folder)
        entries = folder / ENTRIES
        summary = entries.with_suffix(".json")
        totals = read_json(summary)
        if totals is None:
            count_runs(folder, text, counting, memory, report)
            totals = write_entries(entries, run_paths(folder), counting, memory)
            write_json(summary, totals)
        for path in run_paths(folder):
            path.unlink()
        if not totals["entries"]:
            shutil.rmtree(folder)
            raise UserError(
                f"model.window={counting.window}: no two words of the text meet: every record has fewer than two that "
                f"are frequent enough (model.min_count)"
            )
        files = -(-totals["entries"] // segment_size(totals["entries"]))
        sizes = shuffle(
            entries,
            ENTRY,
            files,
            lambda number: segment_path(folder, number),
            counting.seed,
            with_mirrors if counting.symmetric else lambda block: block,
        )
        write_json(folder / SUMMARY, {"counting": asdict(counting), "sizes": sizes, **totals})
        finish(entries)
        summary.unlink()
    return CooccurrenceFeed(folder)


def count_runs(
    folder: Path, text: Passage, counting: Counting, memory: int, report: Callable[[int, int], None]
) -> None:
    """Writes sorted runs of the whole text, after the last existing one."""
    runs = run_paths(folder)
    while runs and int(runs[-1].stem.split("-")[3]):  # an earlier version also ended runs within a segment
        runs.pop().unlink()
    first = int(runs[-1].stem.split("-")[2]) if runs else 0
    number, held, saved, limit = len(runs), list[Cells](), time.monotonic(), max(2, memory // COST)
    for segment in range(first, text.segments):
        held.append(count_pairs(text.segment(0, segment), counting))
        if sum(map(len, held)) > limit:
            held = [sum_cells(np.concatenate(held))]
        if len(held[0]) > limit // 2 or time.monotonic() - saved > SAVE_SECONDS:
            write_run(run_path(folder, number, segment + 1), [sum_cells(np.concatenate(held))])
            number, held, saved = number + 1, [], time.monotonic()
        report(segment + 1, text.segments)
    write_run(run_path(folder, number, text.segments), [sum_cells(np.concatenate(held))] if held else [])


def count_pairs(text: Text, counting: Counting) -> Cells:
    """Returns the cells of a text with their units; symmetric ones are counted once, with i <= j."""
    cells, weights = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for weight, (before, after) in zip(units(counting.window), cooccurrences(text, counting.window), strict=False):
        row, column = (np.minimum(after, before), np.maximum(after, before)) if counting.symmetric else (after, before)
        cells.append(row.astype(np.int64) * counting.vocabulary + column)
        weights.append(np.full(len(before), weight))
    return sum_cells(np.stack([np.concatenate(cells), np.concatenate(weights)], axis=1))


def unit(window: int) -> int:
    """Returns the units of an adjacent pair: the least number that 1 to `window` divide, or 2^28 if that is huge.

    Beyond EXACT_WINDOW weights are rounded, by less than a part in 10^6 up to a window of 500. Sums stay below 2^63 for
    up to 3 * 10^10 occurrences of one pair.
    """
    return math.lcm(*range(1, window + 1)) if window <= EXACT_WINDOW else 1 << 28


def units(window: int) -> NDArray[np.int64]:
    """Returns (window,) the weight of a pair at distance 1, 2, ..., in units."""
    return np.array([round(unit(window) / distance) for distance in range(1, window + 1)], np.int64)


def write_entries(path: Path, runs: list[Path], counting: Counting, memory: int) -> dict[str, Any]:
    """Merges the runs into one file of entries; returns their number, and the number with mirrored (j, i)."""
    stored = diagonal = 0
    with atomic_open(path, durable=False) as file:
        for cells in merge_runs(runs, memory // 128):
            block = as_entries(cells, counting)
            stored += len(block)
            diagonal += int((block["i"] == block["j"]).sum())
            file.write(block.data)
    return {"stored": stored, "entries": 2 * stored - diagonal if counting.symmetric else stored}


def as_entries(cells: Cells, counting: Counting) -> Records:
    """Turns (n, 2) cells and units into entries. In a symmetric matrix two equal words are each other's context."""
    entries = np.empty(len(cells), ENTRY)
    entries["i"], entries["j"] = np.divmod(cells[:, 0], counting.vocabulary)
    twice = 1 + (counting.symmetric & (entries["i"] == entries["j"]))
    entries["x"] = cells[:, 1] * twice / unit(counting.window)
    return entries


def with_mirrors(entries: Records) -> Records:
    """Returns the entries (i, j) with i <= j, and (j, i) for those off the diagonal."""
    mirrors = entries[entries["i"] != entries["j"]]
    mirrors["i"], mirrors["j"] = mirrors["j"], mirrors["i"].copy()
    return np.concatenate([entries, mirrors])


def segment_size(entries: int) -> int:
    """Returns the entries per segment: small matrices still give every rank several, of 4,096 or more."""
    return min(SEGMENT_ENTRIES, max(4096, entries // 64))


def segment_path(folder: Path, number: int) -> Path:
    return folder / f"segment-{number:06d}.entries"


def run_path(folder: Path, number: int, segment: int) -> Path:
    """`segment`: the first one of the next run."""
    return folder / f"run-{number:06d}-{segment:09d}-{0:012d}.cells"


def run_paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("run-*.cells"))


def open_folder(folder: Path, made_for: dict[str, Any]) -> bool:
    """Returns True if the pass is finished. Deletes files of another text or window, and half-written ones."""
    marker, summary = folder / MARKER, read_json(folder / MARKER)
    if summary != made_for:
        foreign = [path.name for path in folder.iterdir() if not path.name.startswith(MARKER)]
        if summary is None and foreign:
            raise UserError(f"{folder}: holds files that are not co-occurrences ({min(foreign)}); delete or move them")
        write_json(marker, {})  # from now on the folder's files count as unfinished, even after a kill
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path != marker:
                path.unlink()
        write_json(marker, made_for)
    remove_parts(folder)
    return (folder / SUMMARY).exists()


@contextlib.contextmanager
def claim_folder(folder: Path) -> Iterator[None]:
    """Makes the folder if needed, and locks it against a second pass during the block."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError, PermissionError) as problem:
        raise UserError(f"{folder}: cannot be used as a folder ({problem.strerror})") from problem
    with exclusive(folder) as held:
        if not held:
            raise UserError(f"{folder}: another process counts co-occurrences there")
        yield


def write_run(path: Path, blocks: Iterable[Cells]) -> None:
    """Writes one run atomically."""
    with atomic_open(path, durable=False) as file:
        for block in blocks:
            file.write(np.ascontiguousarray(block, "<i8").data)


def merge_runs(runs: Sequence[Path], at_once: int) -> Iterator[Cells]:
    """Merges all runs, summing equal cells; holds about `at_once` cells.

    Each step takes from every run the cells up to the least of the pieces' last cells, so that equal cells meet in the
    same step.
    """
    piece = max(1, at_once // max(1, len(runs)))
    heads = [np.empty((0, 2), np.int64) for _ in runs]
    places, sizes = [0] * len(runs), [path.stat().st_size // CELL for path in runs]  # read so far, and in total
    while True:
        for number, path in enumerate(runs):
            if not len(heads[number]) and places[number] < sizes[number]:
                heads[number] = np.fromfile(path, "<i8", 2 * piece, offset=CELL * places[number]).reshape(-1, 2)
                places[number] += len(heads[number])
        ends = [int(heads[number][-1, 0]) for number in range(len(runs)) if places[number] < sizes[number]]
        lowest = min(ends, default=np.iinfo(np.int64).max)
        stops = [int(np.searchsorted(head[:, 0], lowest, side="right")) for head in heads]
        taken = [head[:stop] for head, stop in zip(heads, stops, strict=True) if stop]
        if not taken:
            return
        heads = [head[stop:] for head, stop in zip(heads, stops, strict=True)]
        yield sum_cells(np.concatenate(taken)) if len(taken) > 1 else taken[0]


def sum_cells(cells: Cells) -> Cells:
    """Turns (n, 2) in any order into ascending cells, each once."""
    if not len(cells):
        return cells
    cells = cells[np.argsort(cells[:, 0], kind="stable")]
    first = np.flatnonzero(np.diff(cells[:, 0], prepend=cells[0, 0] - 1))
    return np.stack([cells[first, 0], np.add.reduceat(cells[:, 1], first)], axis=1)


def shuffle(
    source: Path,
    dtype: np.dtype[Any],
    files: int,
    name: Callable[[int], Path],
    seed: int,
    expand: Callable[[Records], Records],
) -> list[int]:
    """Deals the records of `source`, each block first through `expand`, to `name(0)`, ...; returns the files' sizes.

    Resumes after an interruption; deletes `source` as soon as it is no longer needed.
    """
    folder = source.with_name(f"{source.name}.dealt")
    done = source.with_name(f"{source.name}.dealt.json")
    if read_json(done) is None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for number, block in enumerate(read_blocks(source, dtype)):
            deal(expand(block), folder, files, np.random.default_rng([seed, 0, number]))
        write_json(done, files)
    source.unlink(missing_ok=True)
    sizes = []
    for number in range(files):
        dealt, final = folder / f"{number:06d}", name(number)
        if not final.exists():
            records = np.fromfile(dealt, dtype) if dealt.exists() else np.empty(0, dtype)
            with atomic_open(final, durable=False) as file:
                records.take(np.random.default_rng([seed, 1, number]).permutation(len(records))).tofile(file)
        dealt.unlink(missing_ok=True)
        sizes.append(final.stat().st_size // dtype.itemsize)
    return sizes


def finish(source: Path) -> None:
    """Deletes the state of `shuffle` once its result is recorded."""
    shutil.rmtree(source.with_name(f"{source.name}.dealt"), ignore_errors=True)
    source.with_name(f"{source.name}.dealt.json").unlink(missing_ok=True)


def deal(records: Records, folder: Path, files: int, rng: np.random.Generator) -> None:
    """Appends each record to one of the files 0, ..., `files` - 1 in `folder`."""
    chosen = rng.integers(files, size=len(records), dtype=np.uint16 if files <= 1 << 16 else np.uint32)
    order = np.argsort(chosen, kind="stable")
    ends = np.cumsum(np.bincount(chosen, minlength=files))
    ordered = records.take(order)  # four times as fast as records[order]
    for number, (first, last) in enumerate(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)):
        if last > first:
            with (folder / f"{number:06d}").open("ab") as file:
                ordered[first:last].tofile(file)


def read_blocks(path: Path, dtype: np.dtype[Any]) -> Iterator[Records]:
    """Yields the records of a file, AT_ONCE at a time."""
    with path.open("rb") as file:
        while len(block := np.fromfile(file, dtype, AT_ONCE)):
            yield block
