"""The texts that a model learned from: kept by its run, carried by its bundle, compared with a held-out set.

A run's file has the texts of its shards and of the models that it begins with; the models behind shards (a tokenizer
from elsewhere, pairs that a model translated) are in the shards' own. Shards and bundles from before there were such
files, and imported models, say so.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.model.bundles.directory import Bundle
from dragoman.model.errors import UserError
from dragoman.model.plural import plural
from dragoman.model.runs.paths import TRAINING
from dragoman.model.shards.manifest import manifest_hash
from dragoman.model.text.hashed_texts import read_of, seen, summary
from dragoman.pipelines.config import Config

NAMED = 8  # lines in a message
KEY = "evaluate.may_know"


@dataclass(frozen=True)
class Overlap:
    """The lines of a held-out set that models learned from."""

    lines: tuple[int, ...]  # from 1
    of: int
    texts: int  # sentences that are compared with
    unknown: tuple[str, ...]  # origins whose texts are not known

    @property
    def share(self) -> float:
        return len(self.lines) / max(1, self.of)

    def __str__(self) -> str:
        """Returns the finding as a sentence."""
        without = f"unknown training data of {', '.join(self.unknown)}" if self.unknown else ""
        if not self.texts:
            return f"training data: {without}"
        first = ", ".join(map(str, self.lines[:NAMED])) + (" ..." if len(self.lines) > NAMED else "")
        named = f" (lines {first})" if self.lines else ""
        text = f"training data: {len(self.lines):,} of {plural(self.of, 'line')} learned from{named}"
        return f"{text}, beside {without}" if without else text

    def record(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return {"lines": len(self.lines), "of": self.of, "unknown": list(self.unknown)}


def keep(config: Config) -> None:
    """Writes the run's file, once: of its shards and of every model that gives it weights or words."""
    path = config.run_dir / TRAINING
    if path.is_file():
        return
    named = list(_ancestors(config))
    if not named and (config.shard_dir / TRAINING).is_file():
        shutil.copyfile(config.shard_dir / TRAINING, path)
        return
    shards = read_of(config.shard_dir, f"the shards {manifest_hash(config.shard_dir)[:12]}")
    models = (read_of(config.bundle_dir(reference, key), reference) for key, reference in named)
    shards.joined(*models).write(path)


def attach(bundle: Bundle, run: Path) -> None:
    """Gives a bundle the run's file; a run from before there was one has none."""
    if (run / TRAINING).is_file() and TRAINING not in bundle.files:
        bundle.add_file(run / TRAINING)
        bundle.update_facts({"training_texts": summary(run / TRAINING)})


def overlap(folders: Sequence[Path], sides: Sequence[Sequence[str]]) -> Overlap:
    """Returns the lines that any of these bundles or runs learned from; `sides`: the lines in each language."""
    known_lines, texts, unknown = np.zeros(len(sides[0]), bool), 0, []
    for folder in folders:
        path = folder / TRAINING
        if not path.is_file():
            unknown.append(folder.parent.name if folder.name == "bundle" else folder.name)
            continue
        known_lines |= seen(path, sides)
        facts = summary(path)
        texts, unknown = texts + facts["hashes"], [*unknown, *facts["unknown"]]
    lines = tuple((np.flatnonzero(known_lines) + 1).tolist())
    return Overlap(lines, len(known_lines), texts, tuple(dict.fromkeys(unknown)))


def refuse_learned(
    folders: Sequence[Path], sides: Sequence[Sequence[str]], may_know: float, what: str, way_on: str
) -> Overlap:
    """Returns the overlap of a held-out set with the training texts.

    Raises UserError: it is more than `may_know` of the set `what`; `way_on` says how to go on.
    """
    common = overlap(folders, sides)
    if common.share > may_know:
        named = ", ".join(map(str, common.lines[:NAMED])) + (" ..." if len(common.lines) > NAMED else "")
        raise UserError(
            f"{what}: the model has learned from {len(common.lines):,} of its {plural(common.of, 'line')} ({named}), "
            f"{common.share:.1%}, and at most {may_know:.1%} may be so: a score on them says nothing of others. "
            f"Take another set, or {way_on}"
        )
    return common


def _ancestors(config: Config) -> Iterator[tuple[str, str]]:
    """Yields (setting, model) of the models that the run begins with."""
    if config.train.init_from:
        yield "train.init_from", config.train.init_from
    yield from ((f"embeddings.{side}", model) for side, model in config.embeddings.references.items())
