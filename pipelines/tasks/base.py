"""The interface of a task, which holds the differences between kinds of model, and the table of tasks.

The commands `train`, `evaluate` and `promote` and the release at a training's end are the same for all kinds; they ask
the row of the model's kind. A new kind needs a row here, the functions it names, one in
`model/networks/architectures.py` for its configuration and one in `model/inference/kinds.py` for its bundles' answers.
`network.NetworkTraining` trains networks; an evaluation of a split begins with `evaluation.base.SplitEvaluation`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.model.bundles.directory import Bundle
from dragoman.model.errors import unknown
from dragoman.model.loaded import loaded
from dragoman.model.networks.architectures import architecture
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.settings import ClusterConfig
from dragoman.pipelines.tasks.run import Run
from dragoman.pipelines.tracking.run import TrackedRun

if TYPE_CHECKING:
    from dragoman.pipelines.evaluation.base import Evaluation
    from dragoman.pipelines.tracking.promotion import Comparison
    from dragoman.pipelines.tracking.registry import Registry, Version


@dataclass(frozen=True)
class Plan:
    """The start of a training's ranks."""

    steps: int  # last step of the journal
    unit: str  # name of its tokens
    cluster: ClusterConfig
    told: str = ""  # what is trained, with room for its `{steps}`: said with its time when the rate is known
    timed: bool = False  # the journal will name an earlier last step


# by the sections `promote` and `paths`
Judge = Callable[[Config, "Registry", "Version", "Version | None"], "Comparison"]


class Training(ABC):
    """The training of a kind of model, and what its weights depend on.

    Every method that takes the whole configuration may raise UserError, which names the key and its choices.
    """

    unread: tuple[str, ...] = ()  # sections that it does not read, left out of a run's record
    held_out: bool = True  # models are scored on held-out texts of the shards; False: on test sets of their own

    @abstractmethod
    def validate(self, config: Config) -> None:
        """Reports all detectable mistakes before any worker starts."""

    def validate_settings(self, config: Config) -> None:  # noqa: B027 - most kinds need the shards
        """The same from the settings alone, where the shards are not visible."""

    @abstractmethod
    def fingerprint(self, config: Config) -> dict[str, Any]:
        """Returns everything that the weights after a given step depend on."""

    def needs_training(self, config: Config) -> bool:
        """Returns True if the training is not finished."""
        return True

    def plan(self, config: Config) -> Plan | None:
        """Prepares a training once; returns None if there is no work for ranks."""
        return None

    def train_rank(self, config: Config, ranks: Ranks, run: Run) -> object:
        """Trains on this rank until the run is over, from the run's newest checkpoint."""
        raise NotImplementedError

    @abstractmethod
    def weights_origin(self, config: Config) -> Any:
        """Returns the origin of the run's final weights, as plain values."""

    @abstractmethod
    def stored_origin(self, facts: Mapping[str, Any]) -> Any:
        """Returns the same, from a bundle's facts."""

    def replay(self, config: Config) -> Generator[tuple[int, int]] | None:
        """Yields (digest, tokens) of the run's steps from its shards and settings, without end; None: it has none."""
        return None


@dataclass(frozen=True)
class Task:
    """One row: how a kind of model is trained, released, evaluated and promoted."""

    kind: str  # of its bundles, and of its row in model/inference/kinds.py
    training: Training
    save_bundle: Callable[[Config, Path, TrackedRun], Bundle]
    evaluate: Callable[[Config, Any], "Evaluation"]  # of an open bundle
    judge: Judge
    # records pictures and tables of the evaluation of an open bundle
    record: Callable[[Config, Any, Any, TrackedRun], None] = lambda config, bundle, made, tracked: made.log(tracked)
    # settings of a release that takes at most so many seconds
    fit_release: Callable[[Config, TrackedRun, float], Config] = lambda config, tracked, seconds: config


# A row, or its module: it is loaded on demand, with everything that only that kind needs.
TASKS: dict[str, Task | str] = {
    "translation": "dragoman.pipelines.tasks.translation:TRANSLATION",
    "language": "dragoman.pipelines.tasks.language:LANGUAGE",
    "masked": "dragoman.pipelines.tasks.language:MASKED",
    "vectors": "dragoman.pipelines.tasks.vectors:VECTORS",
    "labels": "dragoman.pipelines.tasks.labels:LABELS",
}


def task_of(kind: str) -> Task:
    """Returns the row of a kind of model."""
    if kind not in TASKS:
        raise unknown("the kind of model", kind, TASKS)
    row = TASKS[kind]
    return loaded(row) if isinstance(row, str) else row


def task_for(model: Mapping[str, Any]) -> Task:
    """Returns the row for the section `model` of a configuration."""
    return task_of(architecture(str(model.get("architecture"))).kind)
