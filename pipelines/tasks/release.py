"""The sequence from a run's last weights to a registered version: bundle, evaluate, record, register."""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dragoman.model.bundles.directory import CONFIG, read_facts
from dragoman.model.loaded import later
from dragoman.model.runs import checkpoints, paths, record
from dragoman.model.shards.manifest import manifest_hash
from dragoman.pipelines.config import Config
from dragoman.pipelines.tasks.base import Task
from dragoman.pipelines.tasks.held_out_set import describe_set
from dragoman.pipelines.tasks.run import Run
from dragoman.pipelines.tasks.training_texts import attach
from dragoman.pipelines.tracking.descriptions import NOTE, describe_scores
from dragoman.pipelines.tracking.registry import register_bundle
from dragoman.pipelines.training.publishing import publish

open_bundle = later("dragoman.model.inference.kinds:open_bundle")
LATE = 0.1  # part of its time by which a command may end late before it leaves out sentences
logger = logging.getLogger(__name__)


def release(config: Config, run: Run, task: Task, say: Callable[[str], object] = print) -> Path:
    """Makes the run's bundle, scores it, records and registers it; a bundle of the same weights is made once.

    `say` gets the report of its scores.

    Returns the bundle's directory.
    """
    directory = run.folder / paths.BUNDLE
    config = replace(config, bundle=None)
    with run.record() as tracked:
        if minutes := config.train.max_minutes:
            config = task.fit_release(config, tracked, run.began + (1 + LATE) * 60 * minutes - time.time())
        if stored_origin(task, directory) == through_json(task.training.weights_origin(config)):
            logger.info(f"the bundle {directory} is of these weights already")
            bundle = open_bundle(directory)
        else:
            bundle = task.save_bundle(config, directory, tracked)
        attach(bundle, run.folder)
        about = describe_set(config, run.folder, run.name, [directory], tracked) if task.training.held_out else ""
        evaluation = task.evaluate(config, bundle)
        page = f"{evaluation.report()}\n\n{about}" if about else evaluation.report()
        bundle.update_facts({"scores": evaluation.facts()})
        written = evaluation.write(run.folder)
        tracked.artifact(written[0], "evaluation")
        step = checkpoints.newest_step(run.folder)
        tracked.metrics(step, evaluation.logged())
        tracked.tags({NOTE: describe_scores(step, evaluation.logged(), evaluation.examples())})
        tracked.text(f"{page}\n", "evaluation/report.txt")
        task.record(config, bundle, evaluation, tracked)
        say(page)
        publish(run.folder, paths.BUNDLE, paths.evaluation(run.folder, config.evaluate.split).name)
        if config.registry.register:
            version = register_bundle(run.tracking, config.registry, tracked, directory)
            content = {
                "run": config.name,
                "run_id": tracked.run_id,
                "bundle": str(directory),
                "model": config.registry.name,
                "version": version,
                "shards": str(config.shard_dir),
                "manifest_hash": manifest_hash(config.shard_dir),
            }
            record.write_release(run.folder, {**content, **evaluation.summary()})
            publish(run.folder, paths.RELEASE)
    return directory


def is_released(config: Config, task: Task) -> bool:
    """Returns True if the run's bundle has its last weights and has been evaluated."""
    evaluation, bundle = paths.evaluation(config.run_dir, config.evaluate.split), config.run_dir / paths.BUNDLE
    return evaluation.is_file() and stored_origin(task, bundle) == through_json(task.training.weights_origin(config))


def stored_origin(task: Task, bundle: Path) -> Any:
    """Returns the task's `weights_origin` at the time of the bundle; None if there is none."""
    return task.training.stored_origin(read_facts(bundle)) if (bundle / CONFIG).is_file() else None


def through_json(value: Any) -> Any:
    """Returns `value` as it comes back from a JSON file: tuples as lists, keys as text."""
    return json.loads(json.dumps(value))
