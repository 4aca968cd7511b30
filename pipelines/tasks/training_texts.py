"""The texts that a model learned from: kept by its run, carried by its bundle, compared with a held-out set.

A run's file has the texts of its shards and of the models that it begins with. Imported models have none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dragoman.model.bundles.directory import Bundle
from dragoman.model.plural import plural
from dragoman.model.runs.paths import TRAINING
from dragoman.model.text.hashed_texts import read_hashes, seen, write_hashes
from dragoman.pipelines.config import Config

NAMED = 8  # lines in a message


@dataclass(frozen=True)
class Overlap:
    """The lines of a held-out set that models learned from."""

    lines: tuple[int, ...]  # from 1
    of: int

    @property
    def share(self) -> float:
        return len(self.lines) / max(1, self.of)

    def __str__(self) -> str:
        """Returns the finding as the rest of a sentence about the model."""
        first = ", ".join(map(str, self.lines[:NAMED])) + (" ..." if len(self.lines) > NAMED else "")
        named = f" ({first})" if self.lines else ""
        return f"learned from {len(self.lines):,} of its {plural(self.of, 'line')}{named}"


def keep(config: Config) -> None:
    """Writes the run's file, once: of its shards and of every model that gives it weights or words."""
    path = config.run_dir / TRAINING
    if path.is_file():
        return
    folders = [config.shard_dir, *(config.bundle_dir(reference, key) for key, reference in _ancestors(config))]
    files = [folder / TRAINING for folder in folders if (folder / TRAINING).is_file()]
    if files:
        write_hashes(path, map(read_hashes, files))


def attach(bundle: Bundle, run: Path) -> None:
    """Gives a bundle the run's file."""
    if (run / TRAINING).is_file() and TRAINING not in bundle.files:
        bundle.add_file(run / TRAINING)


def overlap(bundles: Sequence[Path], sides: Sequence[Sequence[str]]) -> Overlap | None:
    """Returns the lines that any of these bundles learned from; `sides`: the lines in each language.

    None if no bundle knows its training texts.
    """
    files = [bundle / TRAINING for bundle in bundles if (bundle / TRAINING).is_file()]
    if not files:
        return None
    known = np.logical_or.reduce([seen(file, sides) for file in files])
    return Overlap(tuple((np.flatnonzero(known) + 1).tolist()), len(known))


def _ancestors(config: Config) -> Iterator[tuple[str, str]]:
    """Yields (setting, model) of the models that the run begins with."""
    if config.train.init_from:
        yield "train.init_from", config.train.init_from
    yield from ((f"embeddings.{side}", model) for side, model in config.embeddings.references.items())
