"""Shuffles a file of records into files of about equal size, with bounded memory.

Two passes (Rao 1961, Sandelius 1962): every record is dealt to a random file, then each file is shuffled by itself. The
result depends only on the records and the seed.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.files import atomic_open
from dragoman.pipelines.corpus.read.scratch import read_json, write_json

Records = NDArray[np.void]
AT_ONCE = 1 << 18  # records dealt at a time; it affects the draws, so it is no setting


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
