"""The interface of a task, which holds the differences between kinds of model, and the table of tasks.

The commands `train`, `evaluate` and `promote` and the release at a training's end are the same for all kinds; they ask
the row of the model's kind. A new kind needs a row here, the functions it names, one in
`model/networks/architectures.py` for its configuration and one in `model/inference/kinds.py` for its bundles' answers.
That of a network begins with `network.network_task`, its evaluation of a split with `evaluation.base.SplitEvaluation`.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from dragoman.model.bundles.directory import Bundle
from dragoman.model.errors import UserError, unknown
from dragoman.model.networks.architectures import architecture
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.base import Evaluation
from dragoman.pipelines.evaluation.significance import Significance
from dragoman.pipelines.settings import ClusterConfig
from dragoman.pipelines.tasks.run import Run
from dragoman.pipelines.tracking.promotion import Comparison
from dragoman.pipelines.tracking.registry import Registry, Version
from dragoman.pipelines.tracking.run import TrackedRun


@dataclass(frozen=True)
class Plan:
    """The start of a training's ranks."""

    steps: int  # last step of the journal
    unit: str  # name of its tokens
    cluster: ClusterConfig
    told: str = ""  # what is trained, said with its time when the rate is known


def compared(test: Significance, **more: Any) -> Comparison:
    """Returns what a promotion asks of a test."""
    sizes = test.items, test.unit, test.lower_is_better
    return Comparison(test.metric, test.candidate, test.baseline, test.p_value, *sizes, **more)


def compare_rivals(task: "Task", config: Config, ours: Any, rivals: Mapping[str, Any]) -> str:
    """Returns a line per rival bundle, by name: both scores, their difference and its probability by chance."""
    lines = []
    for name, rival in rivals.items():
        theirs = task.evaluate(config, rival)
        if type(theirs) is not type(ours):
            raise UserError(
                "evaluate.against: one network denoises, the other translates; they have no figure in common"
            )
        lines.append(ours.compare(theirs, config.evaluate.trials).line(baseline=f" {name}"))
    return "\n".join(lines)


Judge = Callable[[Config, Registry, Version, Version | None], Comparison]  # by the sections `promote` and `paths`


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

    # evaluation and promotion
    evaluate: Callable[[Config, Any], Evaluation]  # an open bundle
    judge: Judge
    # verification: yields (digest, tokens) of the run's steps from its shards and settings, from the first on, without
    # end; None: it has no steps
    replay: Callable[[Config], Generator[tuple[int, int]] | None] = lambda config: None

    held_out: bool = True  # it is scored on held-out texts of the shards; False: on test sets of its own
    # records pictures and tables of the evaluation of an open bundle
    record: Callable[[Config, Any, Any, TrackedRun], None] = lambda config, bundle, made, tracked: made.log(tracked)


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
