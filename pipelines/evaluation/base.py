"""The evaluation of a bundle of any kind, as the commands use it: figures, a report, a record, pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypedDict

from dragoman.model.bundles.directory import Bundle
from dragoman.model.runs.record import write_evaluation
from dragoman.model.shards.manifest import manifest_hash
from dragoman.pipelines.evaluation.significance import Significance
from dragoman.pipelines.tracking.plots import Figure, curves
from dragoman.pipelines.tracking.run import TrackedRun

Rows = tuple[Sequence[str], Sequence[Sequence[Any]]]  # the names of the columns, and the rows


class Evaluation:
    """The results of one bundle."""

    split: str  # names the record's file

    def report(self) -> str:
        """Returns the text for users."""
        raise NotImplementedError

    def metrics(self) -> Mapping[str, float]:
        """Returns the scores by name."""
        raise NotImplementedError

    def logged(self) -> Mapping[str, float]:
        """Returns the scores by the names that they have in MLflow."""
        return self.metrics()

    def examples(self) -> list[tuple[str, str]]:
        """Returns a few texts and what the model makes of them, for a description."""
        return []

    def record(self) -> dict[str, Any]:
        """Returns plain values for JSON, without the texts."""
        raise NotImplementedError

    def compare(self, baseline: Self, trials: int) -> Significance:
        """Tests whether this is better than `baseline`, by `trials` random exchanges."""
        raise NotImplementedError

    def facts(self) -> Mapping[str, Any]:
        """Returns the scores for the bundle's facts."""
        return self.metrics()

    def summary(self) -> Mapping[str, Any]:
        """Returns the scores for RUN/release.json."""
        return {"scores": self.metrics()}

    def rows(self) -> list[dict[str, Any]]:
        """Returns the scores for `--json`."""
        return [{"split": self.split, "scores": dict(self.metrics())}]

    def write(self, folder: Path) -> list[Path]:
        """Writes the record, then its other files; returns their paths."""
        return [write_evaluation(folder, self.split, self.record())]

    def log(self, tracked: TrackedRun) -> None:
        """Logs tables and pictures to the run's record."""


class Origin(TypedDict):
    """The facts about its bundle and its texts that every evaluation of a split stores."""

    bundle: str
    manifest_hash: str


def origin(bundle: Bundle, shards: Path) -> Origin:
    """Returns the digest of the bundle, that of the shards' manifest."""
    return {"bundle": bundle.digest, "manifest_hash": manifest_hash(shards)}


@dataclass(kw_only=True)
class SplitEvaluation(Evaluation):
    """The results on a held-out split; each kind of model adds its own."""

    split: str
    pair: str  # or the language
    seconds: float  # without loading
    bundle: str  # the bundle's digest
    manifest_hash: str  # of the shards that the held-out set came from

    def figures(self) -> Mapping[str, float]:
        """Returns the scores by name."""
        raise NotImplementedError

    def details(self) -> Mapping[str, Any]:
        """Returns what the record has beside the origin of the scores."""
        raise NotImplementedError

    def floor(self) -> tuple[str, Self]:
        """Returns what a first champion has to beat, and its name."""
        raise NotImplementedError

    def tables(self) -> Mapping[str, Rows]:
        """Returns the tables for the run's record, by file."""
        return {}

    def pictures(self) -> Mapping[str, Figure | None]:
        """Returns the pictures by name."""
        return {}

    def unit(self) -> tuple[str, str]:
        """Returns what the network predicts, and the unit of its loss, for the curves of its training."""
        return "target token", "nats per {}"

    def metrics(self) -> Mapping[str, float]:
        return {f"{self.split}_{name}": value for name, value in self.figures().items()}

    def logged(self) -> Mapping[str, float]:
        return {f"{self.split}/{name}": value for name, value in self.figures().items()}

    def facts(self) -> Mapping[str, Any]:
        return {self.split: self.figures()}

    def summary(self) -> Mapping[str, Any]:
        return {"scores": self.figures()}

    def record(self) -> dict[str, Any]:
        return {
            "split": self.split,
            **self.details(),
            "seconds": round(self.seconds, 3),
            "bundle": self.bundle,
            "manifest_hash": self.manifest_hash,
        }

    def log(self, tracked: TrackedRun) -> None:
        """Logs the tables, the curves of the training and the pictures."""
        for file, (columns, rows) in self.tables().items():
            tracked.table(columns, rows, file)
        tracked.figure(curves(tracked.history(), tracked.name, *self.unit()), "curves.png")
        for name, figure in self.pictures().items():
            tracked.figure(figure, f"evaluation/{name}-{self.split}.png")
