"""`dragoman compare`: trains networks with equal budgets, measures them alike, and prints one table.

A killed command goes on. Table and pictures are in one MLflow run, and in the comparison's folder below `paths.runs`.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dragoman.conf import compose
from dragoman.model.alignment.attention_plots import save
from dragoman.model.bundles.language import TextBundle
from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.columns import columns
from dragoman.model.device import pick_device
from dragoman.model.inference.kinds import open_bundle
from dragoman.pipelines.cluster.map import connect, here
from dragoman.pipelines.comparison.entries import Entry, resolve
from dragoman.pipelines.comparison.measures import Measured, training_record
from dragoman.pipelines.comparison.pictures import all_pictures
from dragoman.pipelines.comparison.table import metrics_of, steps, table_of
from dragoman.pipelines.comparison.training import bundle_of, with_budget
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.base import SplitEvaluation
from dragoman.pipelines.evaluation.comparison_settings import model_file
from dragoman.pipelines.settings import Backend
from dragoman.pipelines.tasks.base import task_of
from dragoman.pipelines.tasks.held_out_set import describe_set
from dragoman.pipelines.tracking.lineage import log_comparison
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.server import resolve_paths

logger = logging.getLogger(__name__)


def check(config: Config) -> None:
    """Refuses items that cannot be compared; looks for runs and bundles only if their folders must be visible."""
    files = [item for item in config.models if model_file(item)]
    resolve(config if config.paths.visible or not files else replace(config, models=files))


def task(config: Config) -> int:
    """Resolves all items, trains networks, measures them, draws and records."""
    config = replace(config, tracking=resolve_paths(config.tracking), paths=config.paths.absolute())
    entries = with_budget(config, resolve(config))
    kind, trains = entries[0].kind, any(entry.config is not None for entry in entries)
    with connect(config.cluster if trains else here()) as cluster:  # one Ray session for all trainings
        networks = [measure(config, on_backend(entry, cluster.backend)) for entry in entries]
    tests = steps(networks, config.evaluate.trials)
    table = table_of(networks, kind, tests)
    home = config.paths.local(config.paths.runs) / config.compare.name
    with TrackedRun(config.tracking, home, config.compare.name, system=False) as run:
        existing = [entry.bundle for entry in entries if entry.bundle is not None]
        about = describe_set(config, home, config.compare.name, existing, run)
        values = compose.plain(config)
        log_comparison(run, values, compose.fingerprint(values), config.shard_dir)
        metrics = {"compare/networks": float(len(networks)), **metrics_of(networks, kind, tests)}
        run.metrics(len(run.history().get("compare/networks", ())), metrics)
        run.table(table[0], table[1:], "table.json")
        run.tags({f"bundle.{network.label}": network.bundle.digest[:12] for network in networks})
        for path in draw(config, networks, home / "pictures"):
            run.artifact(path, "pictures")
    print("\n".join([*columns(table, right=True), "", about]).rstrip())
    logger.info(f"the table is in the MLflow run {config.compare.name!r}, the pictures there and in {home}/pictures")
    return compose.OK


def measure(config: Config, entry: Entry) -> Measured:
    """Returns the measures of a network, which is trained now if need be; all decode by PyTorch."""
    folder = bundle_of(entry)
    bundle = open_bundle(folder)
    by_torch = replace(config, engine="torch", evaluate=replace(config.evaluate, samples=0))
    evaluation = task_of(entry.kind).evaluate(by_torch, bundle)
    assert isinstance(evaluation, SplitEvaluation) and isinstance(bundle, TextBundle | TranslationBundle), entry.kind
    logger.info(f"{entry.label}: {', '.join(f'{name} {value:.4g}' for name, value in evaluation.metrics().items())}")
    return Measured(entry.label, bundle, bundle.network.parameter_count(), evaluation, training_record(folder.parent))


def draw(config: Config, networks: Sequence[Measured], folder: Path) -> list[Path]:
    """Writes the pictures anew; returns their files."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.png"):
        old.unlink()
    device = str(pick_device(config.cluster.device))
    figures = all_pictures(networks, config.compare.maps, config.compare.map_count, device)
    for name, figure in figures.items():
        save(figure, folder / f"{name}.png")
    return [folder / f"{name}.png" for name in figures]


def on_backend(entry: Entry, backend: Backend) -> Entry:
    """Returns the entry, trained by the backend that the comparison has connected to."""
    if entry.config is None:
        return entry
    return replace(entry, config=replace(entry.config, cluster=replace(entry.config.cluster, backend=backend)))
