"""Networks of one kind: trained if need be, measured alike, and shown on one page."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from dragoman.model.shards.manifest import read_manifest
from dragoman.pipelines.comparison.entries import Entry
from dragoman.pipelines.comparison.measures import Measures, TrainingRecord, training_record
from dragoman.pipelines.comparison.page import Report, Sample
from dragoman.pipelines.comparison.pictures import Picture
from dragoman.pipelines.comparison.seeds import Step, steps
from dragoman.pipelines.comparison.table import table_of
from dragoman.pipelines.comparison.texts import lead, origin
from dragoman.pipelines.comparison.training import bundle_of
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.significance import Floats

logger = logging.getLogger(__name__)
Own = TypeVar("Own", bound=Measures)


class Networks(Generic[Own]):
    """The networks of a comparison; a kind says how they are measured, and what its page shows."""

    metric: str  # of the differences between rows

    def __init__(self, config: Config) -> None:
        self.config, self.samples = config, config.evaluate.bootstrap
        self.runs: dict[str, list[Own]] = {}  # by label, one per seed
        self.measures: dict[str, Own] = {}  # by label, over the seeds
        self.bundles: dict[str, Any] = {}
        self.records: dict[str, TrainingRecord] = {}  # of networks whose journal exists

    def measure(self, entry: Entry, folder: Path) -> tuple[Own, Any]:
        """Returns the measures of a network, and its opened bundle."""
        raise NotImplementedError

    def over_seeds(self, runs: Sequence[Own]) -> Own:
        """Returns the first run's measures with means over the runs, and intervals that cover them."""
        raise NotImplementedError

    def draw(self, runs: Sequence[Own]) -> tuple[Floats, Floats]:
        """Scores runs on the test set and on resampled ones, the same for all."""
        raise NotImplementedError

    def titles(self, corpus: str) -> tuple[str, str, str]:
        """Returns the page's title, how much text was measured on, and what networks that are trained here share."""
        raise NotImplementedError

    def pictures(self) -> Iterable[Picture]:
        raise NotImplementedError

    def shown(self) -> list[Sample]:
        """Returns the same texts by every network."""
        raise NotImplementedError

    def notes(self, tested: int) -> list[str]:
        """Describes the measurements so that they can be repeated; `tested`: the differences that have a p-value."""
        raise NotImplementedError

    def report(self, entries: Sequence[Entry]) -> Report:
        """Trains and measures the networks; returns their page's content."""
        for number, entry in enumerate(entries, 1):
            logger.info(f"{number} of {len(entries)}: {entry.label}")
            measures, bundle = self.measure(entry, bundle_of(entry))
            self.runs.setdefault(entry.again or entry.label, []).append(measures)
            if entry.again:
                continue  # a network's inside is shown only for its first seed
            self.bundles[entry.label] = bundle
            if (training := training_record(bundle.directory.parent)) is not None:
                self.records[entry.label] = training
        self.measures = {label: self.over_seeds(runs) for label, runs in self.runs.items()}
        every, config = list(self.measures.values()), self.config
        gains: Mapping[str, Step] = steps(self.runs, self.metric, self.draw, self.samples)
        tested = sum(corrected is not None for _, corrected in gains.values())
        logger.info("drawing the pictures")
        title, *texts = self.titles(read_manifest(config.shard_dir).corpus)
        return Report(
            title=title,
            lead=lead(config, every, *texts),
            table=table_of(every, self.records, gains, config.compare.seeds),
            pictures=list(self.pictures()),
            samples=self.shown(),
            notes=[*self.notes(tested), *origin(config, every)],
        )
