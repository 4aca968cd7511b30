"""GloVe's co-occurrence pass: shards -> sorted runs -> one file of entries -> shuffled training segments.

Stays within a memory budget, whatever the text. The folder records the progress: a killed pass resumes, and writes
exactly the files of an undisturbed one, with any budget.

FOLDER/made-for.json       what is counted; other files here are deleted
FOLDER/run-*.cells         sorted counts of a part of the text; the name gives where in the text the run ends
FOLDER/entries, .json      all runs merged: (i, j, X_ij), with i <= j if symmetric; replaced by the segments
FOLDER/segment-*.entries   the entries in random order, both (i, j) and (j, i)
FOLDER/cooccurrences.json  written last: the segments' sizes
"""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_open, exclusive, remove_parts
from dragoman.model.word_vectors.glove import Cooccurrences
from dragoman.model.word_vectors.learner import Text
from dragoman.pipelines.corpus.read.scratch import read_json, write_json
from dragoman.pipelines.loaders.window import philox_order
from dragoman.pipelines.word_vectors.merging import Cells, merge_runs, write_run
from dragoman.pipelines.word_vectors.pair_table import PairTable, drop_left_out, unit
from dragoman.pipelines.word_vectors.shuffling import Records, finish, shuffle

ENTRY = np.dtype([("i", "<i4"), ("j", "<i4"), ("x", "<f4")])
SUMMARY, MARKER, ENTRIES = "cooccurrences.json", "made-for.json", "entries"
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

    Raises:
        UserError: the pass was not finished, or a file was changed.
    """

    unit = "entries"

    def __init__(self, folder: Path) -> None:
        self.folder, found = folder, read_json(folder / SUMMARY)
        if found is None:
            raise UserError(f"{folder}: no co-occurrences here; the pass over the text was not finished")
        self.sizes: list[int] = found["sizes"]
        self.segments, self.entries, self.seed = len(self.sizes), sum(self.sizes), int(found["counting"]["seed"])
        for number, size in enumerate(self.sizes):
            path = segment_path(folder, number)
            actual = path.stat().st_size if path.exists() else 0
            if actual != size * ENTRY.itemsize:
                raise UserError(f"{path}: {actual} bytes instead of {size * ENTRY.itemsize}; delete {folder}")

    def segment(self, epoch: int, index: int) -> Cooccurrences:
        """Returns segment `index` of an epoch."""
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

    Raises:
        UserError: no words co-occur, another process works in `folder`, or it holds other files.
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
    table = PairTable(counting.vocabulary, counting.window, counting.symmetric, memory)
    runs = run_paths(folder)
    number, segment, word = len(runs), 0, 0
    if runs:
        segment, word = (int(part) for part in runs[-1].stem.split("-")[2:])
    saved = time.monotonic()
    while segment < text.segments:
        part = drop_left_out(text.segment(0, segment))
        while word < len(part):
            word = table.add(part, word)
            if word < len(part) or time.monotonic() - saved > SAVE_SECONDS:
                write_run(run_path(folder, number, segment, word), table.drain())
                number, saved = number + 1, time.monotonic()
        segment, word = segment + 1, 0
        report(segment, text.segments)
    write_run(run_path(folder, number, segment, word), table.drain())


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


def run_path(folder: Path, number: int, segment: int, word: int) -> Path:
    """`segment`, `word`: the start of the next run; the word is one of those that have a row."""
    return folder / f"run-{number:06d}-{segment:09d}-{word:012d}.cells"


def run_paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("run-*.cells"))


def open_folder(folder: Path, made_for: dict[str, Any]) -> bool:
    """Returns True if the pass is finished. Deletes files of another text or window, and half-written ones."""
    marker, found = folder / MARKER, read_json(folder / MARKER)
    if found != made_for:
        foreign = [path.name for path in folder.iterdir() if not path.name.startswith(MARKER)]
        if found is None and foreign:
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
