"""The interface of a task, which holds the differences between kinds of model, and the table of tasks.

The commands `train`, `evaluate` and `promote` and the release at a training's end are the same for all kinds; they ask
the row of the model's kind. A new kind needs a row here, the functions it names, one in
`model/networks/architectures.py` for its configuration and one in `model/inference/kinds.py` for its bundles' answers.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from dragoman.model.bundles.directory import Bundle
from dragoman.model.errors import unknown
from dragoman.model.networks.architectures import architecture
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.significance import Significance
from dragoman.pipelines.settings import ClusterConfig
from dragoman.pipelines.tasks.run import Run
from dragoman.pipelines.tracking.promotion import Comparison, PromoteConfig
from dragoman.pipelines.tracking.registry import Registry, Version
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.word_vectors.settings import EvaluateVectors


@dataclass(frozen=True)
class Plan:
    """The start of a training's ranks."""

    steps: int  # last step of the journal
    unit: str  # name of its tokens
    cluster: ClusterConfig
    told: str = ""  # what is trained, said with its time when the rate is known


@dataclass(frozen=True)
class Measured:
    """An evaluation, the same for every kind of model."""

    report: str  # text for the user
    scores: Mapping[str, float]  # by the names in MLflow
    facts: Mapping[str, Any]  # the same for the bundle's `scores`
    summary: Mapping[str, Any]  # for RUN/release.json
    details: Any  # the kind's own evaluation

    @classmethod
    def of_split(cls, evaluation: Any, report: str, scores: Mapping[str, float]) -> "Measured":
        """Returns an evaluation on `evaluation.split`, with the same scores everywhere."""
        by_split = {f"{evaluation.split}_{name}": value for name, value in scores.items()}
        return cls(report, by_split, {evaluation.split: scores}, {"scores": scores}, evaluation)


def compared(test: Significance, **more: Any) -> Comparison:
    """Returns what a promotion asks of a test."""
    sizes = test.items, test.unit, test.lower_is_better
    return Comparison(test.metric, test.candidate, test.baseline, test.p_value, *sizes, **more)


Judge = Callable[[Registry, Version, Version | None, PromoteConfig, Path, EvaluateVectors], Comparison]


@dataclass(frozen=True)
class Task:
    """One row: how a kind of model is trained, released, evaluated and promoted.

    Every function that takes the whole configuration may raise UserError, which names the key and its choices.
    """

    kind: str  # of its bundles, and of its row in model/inference/kinds.py
    unread: tuple[str, ...]  # sections that it does not read, left out of a run's record

    # before and during training
    validate: Callable[[Config], None]  # reports all detectable mistakes before any worker starts
    validate_settings: Callable[[Config], None]  # the same from the settings alone, if the shards are not visible
    fingerprint: Callable[[Config], dict[str, Any]]  # everything that the weights after a given step depend on
    needs_training: Callable[[Config], bool]
    plan: Callable[[Config], Plan | None]  # None: no work for ranks
    train_rank: Callable[[Config, Ranks, Run], object]  # a top-level function; resumes from the newest checkpoint

    # release
    weights_origin: Callable[[Config], Any]  # the origin of the run's final weights, as plain values
    stored_origin: Callable[[Mapping[str, Any]], Any]  # the same, from a bundle's facts
    save_bundle: Callable[[Config, Path, TrackedRun], Bundle]
    record: Callable[[Config, Any, Measured, TrackedRun], None]  # pictures, samples and tables, of the open bundle

    # evaluation and promotion
    evaluate: Callable[[Config, Any], Measured]  # an open bundle
    write: Callable[[Measured, Path], Sequence[Path]]  # into a folder: the record first, then its other files
    compare: Callable[[Config, Measured, Sequence[Any], Path], str]  # with other bundles; writes files into the folder
    judge: Judge
    # verification: yields (digest, tokens) of the run's steps from its shards and settings, from the first on, without
    # end; None: it has no steps
    replay: Callable[[Config], Generator[tuple[int, int]] | None] = lambda config: None

    # measures other things that `evaluate` can measure
    measure_more: Callable[[Config, Any], None] = lambda config, bundle: None


# A row, or its module: it is loaded on demand, with everything that only that kind needs.
TASKS: dict[str, Task | str] = {
    "translation": "dragoman.pipelines.tasks.translation:TRANSLATION",
    "language": "dragoman.pipelines.tasks.language:LANGUAGE",
    "masked": "dragoman.pipelines.tasks.language:MASKED",
    "vectors": "dragoman.pipelines.tasks.vectors:VECTORS",
    "labels": "dragoman.pipelines.tasks.labels:LABELS",
}


def task_of(kind: str) -> Task:
    """Returns the row of a kind of model. Raises UserError: an unknown kind."""
    if kind not in TASKS:
        raise unknown("the kind of model", kind, TASKS)
    row = TASKS[kind]
    if isinstance(row, Task):
        return row
    module, _, name = row.partition(":")
    task: Task = getattr(import_module(module), name)
    return task


def task_for(model: Mapping[str, Any]) -> Task:
    """Returns the row for the section `model` of a configuration.

    Raises UserError: a missing or unknown architecture.
    """
    return task_of(architecture(str(model.get("architecture"))).kind)
