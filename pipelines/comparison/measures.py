"""The measures of one network, stored in the comparison's folder, where a restart finds them."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, TypedDict, TypeVar

from dragoman.conf import compose
from dragoman.model.bundles.language import TextBundle
from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.errors import UserError
from dragoman.model.files import atomic_write
from dragoman.model.runs import journal, paths
from dragoman.model.schema import build
from dragoman.model.shards.manifest import manifest_hash
from dragoman.pipelines.comparison.entries import Entry
from dragoman.pipelines.config import Config

logger = logging.getLogger(__name__)
PAUSE = 5.0  # a step this many times longer than usual includes an evaluation, a checkpoint or a start


@dataclass
class TrainingRecord:
    """A finished training."""

    steps: int
    tokens: int  # target tokens
    minutes: float  # with evaluations and checkpoints
    tokens_per_second: float  # without them
    validation: list[tuple[int, float, float]] = field(default_factory=list)  # (target tokens, minutes, nats per token)


def training_record(run: Path) -> TrainingRecord | None:
    """Returns the record of a run's directory; None if it has no journal of a network."""
    lines = list(journal.lines(run / paths.STEPS))
    steps = [line for line in lines if "nll" in line and "tokens" in line]
    if not steps:
        return None
    validation, tokens = [], 0
    for line in lines:
        if "valid_loss" in line:
            validation.append((tokens, line["seconds"] / 60, float(line["valid_loss"])))
        else:
            tokens += int(line.get("tokens", 0))
    return TrainingRecord(
        steps=int(steps[-1]["step"]),
        tokens=tokens,
        minutes=float(lines[-1]["seconds"]) / 60,
        tokens_per_second=speed(steps),
        validation=validation,
    )


def speed(steps: Sequence[Mapping[str, Any]]) -> float:
    """Returns target tokens per second of consecutive journal lines, without steps after a pause; 0 if too few."""
    pairs = [
        (float(after["seconds"]) - float(before["seconds"]), int(after["tokens"]))
        for before, after in pairwise(steps)
        if after["step"] == before["step"] + 1
    ]
    usual = median([seconds for seconds, _ in pairs]) if pairs else 0.0
    kept = [(seconds, tokens) for seconds, tokens in pairs if 0 < seconds <= PAUSE * usual]
    return sum(tokens for _, tokens in kept) / sum(seconds for seconds, _ in kept) if kept else 0.0


@dataclass(kw_only=True)
class Measures:
    """Plain values, stored as JSON; each kind of network adds its own, and how the table shows them."""

    step: ClassVar[str]  # the metric's name of the difference to the row before
    digits: ClassVar[int]  # of that difference
    highest: ClassVar[tuple[int, ...]]  # columns of the table whose largest number is the best
    lowest: ClassVar[tuple[int, ...]] = ()  # and those whose smallest number is

    label: str
    architecture: str
    trained_here: bool  # within the comparison's budget
    bundle: str  # sha256
    parameters: int
    key: str  # hash of everything that the numbers depend on

    @staticmethod
    def head(seeds: int) -> list[tuple[str, str]]:
        """Returns the (large, small) text of each column of the table."""
        raise NotImplementedError

    def cells(self) -> list[tuple[str, str]]:
        """Returns the row's score, its second score, and what stands behind its training."""
        raise NotImplementedError

    def scores(self) -> dict[str, float]:
        """Returns the scores as metrics."""
        raise NotImplementedError


Kind = TypeVar("Kind", bound=Measures)


class Common(TypedDict):
    """The fields of `Measures` that every kind has."""

    label: str
    architecture: str
    trained_here: bool
    bundle: str
    parameters: int
    key: str


def measured(
    config: Config,
    entry: Entry,
    bundle: TextBundle | TranslationBundle,
    kind: type[Kind],
    depends: Mapping[str, Any],
    measure: Callable[[Common], Kind],
) -> Kind:
    """Returns the measures of a network: the stored ones, or new ones if their key is another.

    `depends`: what the numbers depend on beside the bundle and the shards.
    """
    key = compose.fingerprint({"bundle": bundle.digest, "shards": manifest_hash(config.shard_dir), **depends})
    path = folder(config) / "measures" / f"{entry.label.replace('/', '-')}.json"
    try:
        stored = build(kind, json.loads(path.read_text(encoding="utf-8")), str(path))
        if stored.key == key:
            logger.info(f"{entry.label}: measured before ({path})")
            return stored
    except (OSError, ValueError, UserError):  # there are none, or they are not readable
        pass
    measures = measure(
        {
            "label": entry.label,
            "architecture": bundle.architecture,
            "trained_here": entry.config is not None,
            "bundle": bundle.digest,
            "parameters": bundle.network.parameter_count(),
            "key": key,
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, json.dumps(asdict(measures), ensure_ascii=False, indent=1) + "\n")
    return measures


def folder(config: Config) -> Path:
    """Returns the comparison's own run directory."""
    return config.paths.local(config.paths.runs) / config.compare.name
