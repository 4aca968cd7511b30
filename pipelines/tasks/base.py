"""What one kind of model does differently from the next: the interface of a task, and the table of them.

The verbs `train`, `evaluate` and `promote` and the release at a training's end are one sequence each, the same for all;
they ask the row of the model's kind. A new kind is a row here, the functions it names, one in
`model/networks/architectures.py` for its configuration and one in `model/inference/kinds.py` for what its bundles
answer.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from model.bundles.directory import Bundle
from model.errors import unknown
from model.networks.architectures import architecture
from pipelines.cluster.ranks import Ranks
from pipelines.config import Config
from pipelines.settings import ClusterConfig
from pipelines.tracking.promotion import Comparison, PromoteConfig
from pipelines.tracking.registry import Registry, Version
from pipelines.tracking.run import TrackedRun
from pipelines.word_vectors.settings import EvaluateVectors


@dataclass(frozen=True)
class Plan:
    """How the ranks of a training are started."""

    steps: int  # where the journal's steps end
    unit: str  # what its tokens are
    cluster: ClusterConfig


@dataclass(frozen=True)
class Measured:
    """An evaluation as every kind of model has one."""

    report: str  # for a person
    scores: Mapping[str, float]  # by the names that MLflow shows
    facts: Mapping[str, Any]  # the same for the bundle's `scores`
    summary: Mapping[str, Any]  # for RUN/release.json
    details: Any  # the kind's own evaluation


@dataclass(frozen=True)
class Task:
    """One row: a kind of model, as it is trained, released, evaluated and promoted.

    Every function that takes the whole configuration may raise UserError, which names the key and its choices.
    """

    kind: str  # of its bundles, and of its row in model/inference/kinds.py
    unread: tuple[str, ...]  # sections that it does not read, left out of a run's record

    # before and while training
    validate: Callable[[Config], None]  # says everything that can be known to be wrong, before any worker starts
    validate_settings: Callable[[Config], None]  # the same of the settings alone, where the shards are out of sight
    fingerprint: Callable[[Config], dict[str, Any]]  # what the weights after a given step depend on
    needs_training: Callable[[Config], bool]
    plan: Callable[[Config], Plan | None]  # None: nothing that ranks would do
    train_rank: Callable[[Config, Ranks], object]  # of a module's top level; goes on from the newest checkpoint

    # release
    weights_origin: Callable[[Config], Any]  # what the run's final weights are made from, as plain values
    stored_origin: Callable[[Mapping[str, Any]], Any]  # the same, from a bundle's facts
    save_bundle: Callable[[Config, Path, TrackedRun], Bundle]
    record: Callable[[Config, Any, Measured, TrackedRun], None]  # pictures, samples and tables, of the open bundle

    # evaluation and promotion
    evaluate: Callable[[Config, Any], Measured]  # an open bundle
    write: Callable[[Measured, Path], Sequence[Path]]  # into a folder: the record first, then what belongs to it
    compare: Callable[[Config, Measured, Sequence[Any], Path], str]  # with other bundles; its files into the folder
    judge: Callable[[Registry, Version, Version, PromoteConfig, Path, EvaluateVectors], Comparison]
    # verification: (digest, tokens) of the run's steps as its shards and settings give them, from the first on, without
    # end; None: it has no steps
    replay: Callable[[Config], Generator[tuple[int, int]] | None] = lambda config: None

    measure_more: Callable[[Config, Any], None] = lambda config, bundle: (
        None
    )  # what `evaluate` can be asked for besides


# A row, or where it stands: a module is loaded when its kind is asked for, and with it what only that kind needs.
TASKS: dict[str, Task | str] = {
    "translation": "pipelines.tasks.translation:TRANSLATION",
    "language": "pipelines.tasks.language:LANGUAGE",
    "masked": "pipelines.tasks.language:MASKED",
    "vectors": "pipelines.tasks.vectors:VECTORS",
}


def task_of(kind: str) -> Task:
    """The row of a kind of model.

    Raises:
        UserError: there is none.
    """
    if kind not in TASKS:
        raise unknown("the kind of model", kind, TASKS)
    row = TASKS[kind]
    if isinstance(row, Task):
        return row
    module, _, name = row.partition(":")
    found: Task = getattr(import_module(module), name)
    return found


def task_for(model: Mapping[str, Any]) -> Task:
    """The row for the section `model` of a configuration.

    Raises:
        UserError: no or an unknown architecture.
    """
    return task_of(architecture(str(model.get("architecture"))).kind)
