"""A file of records in random order, as files of about equal size, with a bounded part of it in memory.

Two passes (Rao 1961, Sandelius 1962): every record is dealt to one of the files by chance, then each file is shuffled
by itself. What comes out depends on the records and the seed alone.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.files import atomic_open
from pipelines.corpus.scratch import read_json, write_json

Records = NDArray[np.void]
AT_ONCE = 1 << 18  # records dealt at a time; part of what is drawn, so never the user's choice


def shuffle(
    source: Path,
    dtype: np.dtype[Any],
    files: int,
    name: Callable[[int], Path],
    seed: int,
    expand: Callable[[Records], Records],
) -> list[int]:
    """Deal the records of `source`, each block through `expand` first, to `name(0)`, ...; how many each file holds.

    Goes on where it was interrupted; `source` is deleted as soon as it is not needed any more.
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
    """Take away what `shuffle` remembers, once its result is recorded."""
    shutil.rmtree(source.with_name(f"{source.name}.dealt"), ignore_errors=True)
    source.with_name(f"{source.name}.dealt.json").unlink(missing_ok=True)


def deal(records: Records, folder: Path, files: int, rng: np.random.Generator) -> None:
    """Append each record to one of the files 0, ..., `files` - 1 in `folder`."""
    chosen = rng.integers(files, size=len(records), dtype=np.uint16 if files <= 1 << 16 else np.uint32)
    order = np.argsort(chosen, kind="stable")
    ends = np.cumsum(np.bincount(chosen, minlength=files))
    ordered = records.take(order)  # four times as fast as records[order]
    for number, (first, last) in enumerate(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)):
        if last > first:
            with (folder / f"{number:06d}").open("ab") as file:
                ordered[first:last].tofile(file)


def read_blocks(path: Path, dtype: np.dtype[Any]) -> Iterator[Records]:
    """The records of a file, AT_ONCE at a time."""
    with path.open("rb") as file:
        while len(block := np.fromfile(file, dtype, AT_ONCE)):
            yield block
