"""Says beside a score how often its set was scored before, and whether the model learned from it.

Whoever looks at a test set, changes something and looks again, chooses by it. So the MLflow run of each scored model
counts its scorings of a set in the tag `scored.SET`. `valid` and `gate` are there to be chosen on, and not counted.
"""

import contextlib
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.model.errors import ServiceError, UserError
from dragoman.model.plural import plural
from dragoman.model.runs.paths import SPOOL
from dragoman.model.shards.manifest import LABELS, has_manifest, read_manifest
from dragoman.model.text.tags import tag_prefix
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.held_out import held_out_lines
from dragoman.pipelines.tasks.training_texts import overlap
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.server import connect, resolve_paths
from dragoman.pipelines.tracking.settings import TrackingConfig

logger = logging.getLogger(__name__)
TAG = "scored."  # of MLflow's runs, before a set's digest: how often they scored it
CHOSEN_ON = ("train", "valid", "gate")  # splits that settings and promotions are chosen on
MOST = 10_000  # runs of an experiment that are read


@dataclass(frozen=True)
class Held:
    """The lines of a held-out set, and its name."""

    split: str
    sides: tuple[list[str], ...]  # the lines in each language
    digest: str  # of its texts: the same in all shards with them


def held_split(shards: Path, split: str, sentences: int = 0) -> Held | None:
    """Returns the lines of a split without its tags; None if the shards keep no text of it."""
    if not has_manifest(shards):
        return None
    manifest = read_manifest(shards)
    texts = manifest.texts.get(split, {})
    languages = [language for language in texts if language != LABELS]
    if not languages or split == "train":
        return None
    sides = [held_out_lines(shards, split, language, sentences) for language in languages]
    for part in manifest.parts:
        prefix, ids = tag_prefix(part.tags), manifest.part_ranges(split)[part.name]
        for row in ids if prefix else ():
            if row < len(sides[0]):
                sides[0][row] = sides[0][row].removeprefix(prefix)
    joined = "".join(sorted(str(entry["sha256"]) for entry in texts.values()))
    return Held(split, tuple(sides), hashlib.sha256(joined.encode()).hexdigest()[:12])


def describe_set(
    config: Config, folder: Path, run: str, bundles: Sequence[Path], tracked: TrackedRun | None = None
) -> str:
    """Counts a scoring of `evaluate.split`; returns how often it was scored before, and what the bundles know of it.

    Empty for a set that is new to the models and to people.

    `folder`: the run's, or its evaluations'. `tracked`: its open record.
    """
    held = held_split(config.shard_dir, config.evaluate.split, config.evaluate.sentences)
    if held is None:
        return ""
    lines, named = [], f"{held.split} (set {held.digest})"
    times = None if held.split in CHOSEN_ON else count_scoring(config.tracking, held, folder, run, tracked)
    if times:
        lines.append(f"{named}: scored {plural(times, 'time')} before")
    learned = overlap(bundles, held.sides)
    if learned is None:
        lines.append(f"{named}: unknown training texts")
    elif learned.lines:
        lines.append(f"{named}: the model {learned}")
        logger.warning(f"{named}: the model {learned}; a score on them says little of others")
    return "\n".join(lines)


def count_scoring(
    tracking: TrackingConfig, held: Held, folder: Path, run: str, tracked: TrackedRun | None = None
) -> int | None:
    """Tags the model's MLflow run; returns how often the set was scored before, None if the server does not say."""
    client, tag = _client(tracking), f"{TAG}{held.digest}"
    if client is None:
        return None
    try:
        experiment = client.get_experiment_by_name(tracking.experiment)
        query = f"tags.`{tag}` LIKE '%'"
        runs = client.search_runs([experiment.experiment_id], query, max_results=MOST) if experiment else []
        counts = {(each.info.run_id, each.info.run_name): int(each.data.tags[tag]) for each in runs}
        own = 1 + sum(count for (_, name), count in counts.items() if name == run)
        if tracked is not None:
            tracked.tags({tag: str(own)})
        elif (folder / SPOOL).is_dir():
            record = TrackedRun(tracking, folder, run, system=False, begin=False)
            record.tags({tag: str(own)})
            record.leave()
        elif experiment:
            named = client.search_runs([experiment.experiment_id], f"attributes.run_name = '{run}'", max_results=1)
            for each in named:
                client.set_tag(each.info.run_id, tag, str(own))
    except Exception as problem:  # of MLflow's many
        logger.info(f"scorings are not counted: {type(problem).__name__}")
        return None
    return sum(counts.values())


def _client(tracking: TrackingConfig) -> Any:
    """Returns MLflow's client; None if records are kept offline, or there is no database yet."""
    database = tracking.uri.removeprefix("sqlite:///")
    if tracking.offline or (database != tracking.uri and not Path(database).is_file()):
        return None
    with contextlib.suppress(UserError, ServiceError):
        return connect(resolve_paths(tracking))
    return None
