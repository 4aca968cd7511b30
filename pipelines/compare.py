"""`dragoman compare`: compares networks, trained with equal budgets or existing, on one page. A killed run resumes."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from dragoman.conf import compose
from dragoman.pipelines.cluster.map import connect, here
from dragoman.pipelines.comparison import record
from dragoman.pipelines.comparison.entries import Entry, resolve
from dragoman.pipelines.comparison.language import LanguageModels
from dragoman.pipelines.comparison.measures import folder
from dragoman.pipelines.comparison.seeds import with_seeds
from dragoman.pipelines.comparison.training import with_budget
from dragoman.pipelines.comparison.translation import TranslationNetworks
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.comparison_settings import model_file
from dragoman.pipelines.settings import Backend
from dragoman.pipelines.tasks.openings import Checked, open_split
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.server import resolve_paths

logger = logging.getLogger(__name__)


def check(config: Config) -> None:
    """Refuses items that cannot be compared; looks for runs and bundles only if their folders must be visible."""
    files = [item for item in config.models if model_file(item)]
    resolve(config if config.paths.visible or not files else replace(config, models=files))


def task(config: Config) -> int:
    """Resolves all items, trains networks, measures, draws and writes."""
    config = replace(config, tracking=resolve_paths(config.tracking), paths=config.paths.absolute())
    entries = with_budget(config, with_seeds(resolve(config), config.compare.seeds))
    checked = open_test_set(config, entries)
    trains = any(entry.config is not None for entry in entries)
    with connect(config.cluster if trains else here()) as place:  # one Ray session for all trainings
        entries = [on_backend(entry, place.backend) for entry in entries]
        report = NETWORKS[entries[0].kind](config).report(entries)
    page = record.write(config, report)
    print(report.table)
    if checked is not None:
        print(f"\n{checked}")
    logger.info(f"the report is {page}; its pictures are beside it and in the MLflow run {config.compare.name!r}")
    return compose.OK


def open_test_set(config: Config, entries: Sequence[Entry]) -> Checked | None:
    """Refuses a set that an existing network learned from, and records its opening; networks to train see to it."""
    existing, home = [entry.bundle for entry in entries if entry.bundle is not None], folder(config)
    tracked = TrackedRun(config.tracking, home, config.compare.name, system=False)
    try:
        return open_split(config, home, config.compare.name, existing, tracked)
    finally:
        tracked.leave()


NETWORKS: dict[str, type[TranslationNetworks] | type[LanguageModels]] = {  # by the networks' kind
    "translation": TranslationNetworks,
    "language": LanguageModels,
}


def on_backend(entry: Entry, backend: Backend) -> Entry:
    if entry.config is None:
        return entry
    return replace(entry, config=replace(entry.config, cluster=replace(entry.config.cluster, backend=backend)))
