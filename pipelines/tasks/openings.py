"""Counts how often a test set was opened, and by which recipes: counted when opened, shown beside the score.

Settings are chosen on `valid` or within the training data. Whoever looks at a test set, changes something and looks
again, chooses by it. So each opening is recorded: a line of RUN/openings.jsonl, which is a chain, and the tag
`opened.SET` of the MLflow run, sent when the server answers. A *recipe* is what run.json says of a run except seed and
shards: another seed is the same recipe, another setting is another recipe.
"""

import contextlib
import hashlib
import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.model.errors import ServiceError, UserError
from dragoman.model.plural import plural
from dragoman.model.runs import journal
from dragoman.model.runs.paths import OPENINGS, SPOOL
from dragoman.model.runs.record import PLANS, read_record
from dragoman.model.shards.manifest import has_manifest, read_manifest
from dragoman.pipelines.config import Config
from dragoman.pipelines.tracking.author import user_and_machine
from dragoman.pipelines.tracking.history import now
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.server import TrackingConfig, connect, resolve_paths

logger = logging.getLogger(__name__)
TAG = "opened."
CHOSEN_ON = ("train", "valid", "gate")  # splits that settings and promotions are chosen on
NOT_THE_RECIPE = {PLANS, "seed", "shards"}


@dataclass(frozen=True)
class Opened:
    """The number of openings of a set by one run."""

    run: str
    recipe: str  # "" if unknown
    times: int


@dataclass(frozen=True)
class Opening:
    """One more opening of a set, and the earlier ones."""

    split: str
    digest: str  # of the set
    recipe: str
    before: tuple[Opened, ...]

    @property
    def count(self) -> int:
        """Returns how often the set has been opened, with this time."""
        return 1 + sum(one.times for one in self.before)

    @property
    def others(self) -> list[Opened]:
        """Returns the openings by other recipes."""
        return [one for one in self.before if one.recipe != self.recipe]

    def __str__(self) -> str:
        if not self.before:
            return f"{self.split} (set {self.digest}): opened for the first time"
        others, own = self.others, self.count - 1 - sum(one.times for one in self.others)
        told = f"{self.split} (set {self.digest}): opening {self.count:,}; before it {own:,} by this recipe"
        if not others:
            return told
        recipes = len({one.recipe for one in others})
        names = ", ".join(sorted({one.run for one in others})[:4])
        return (
            f"{told}, {sum(one.times for one in others):,} by {plural(recipes, 'other')} ({names}). "
            f"What changed since then may have been chosen by it: judge this recipe on a set that was never opened"
        )


def open_split(config: Config, kind: str, folder: Path, run: str, tracked: TrackedRun | None = None) -> Opening | None:
    """Records the opening of `evaluate.split` by a run before it is read; returns None for a split that choices are
    made on, and for word vectors, which have their own test sets.

    `folder`: the run's, or the one that stores its evaluations. `tracked`: its open record.
    """
    split = config.evaluate.split
    if kind == "vectors" or split in CHOSEN_ON or not has_manifest(config.shard_dir):
        return None
    digest = set_digest(config.shard_dir, split)
    return open_set(config, split, digest, folder, run, tracked) if digest else None


def open_set(
    config: Config, split: str, digest: str, folder: Path, run: str, tracked: TrackedRun | None = None
) -> Opening:
    """Records the opening of the set of that digest, called `split`; the rest is as for `open_split`."""
    before = tuple(counted([*_local(config, digest), *_registered(config.tracking, digest)]))
    recipe = recipe_of(folder) or next((one.recipe for one in before if one.run == run), "")  # of a downloaded bundle
    line = {"set": digest, "split": split, "run": run, "recipe": recipe, "by": user_and_machine(), "time": now()}
    journal.append(folder, OPENINGS, line)
    times = 1 + sum(one.times for one in before if (one.run, one.recipe) == (run, recipe))
    _tag(config, folder, run, tracked, {TAG + digest: json.dumps({"recipe": recipe, "times": times})})
    return Opening(split, digest, recipe, before)


def set_digest(shards: Path, split: str) -> str:
    """Returns the name of a held-out set, from its texts: the same in all shards with it; empty without texts."""
    texts = read_manifest(shards).texts.get(split, {})
    joined = "".join(sorted(str(entry["sha256"]) for entry in texts.values()))
    return hashlib.sha256(joined.encode()).hexdigest()[:12] if texts else ""


def recipe_of(folder: Path) -> str:
    """Returns the digest of a run's recipe; empty if it is no run."""
    record = read_record(folder)
    if record is None:
        return ""
    return journal.digest({key: value for key, value in record.items() if key not in NOT_THE_RECIPE}, True)[:12]


def counted(found: Iterable[Opened]) -> Iterator[Opened]:
    """Yields each run and recipe once, with the highest count that any place has."""
    most: dict[tuple[str, str], int] = {}
    for one in found:
        key = (one.run, one.recipe)
        most[key] = max(one.times, most.get(key, 0))
    for (run, recipe), times in most.items():
        yield Opened(run, recipe, times)


def _local(config: Config, digest: str) -> Iterator[Opened]:
    """Yields the openings in the folders of this machine's runs and evaluations."""
    root, runs = config.paths.local(config.paths.root), config.paths.local(config.paths.runs)
    for path in {*runs.glob(f"*/{OPENINGS}"), *root.glob(f"*/*/{OPENINGS}")}:
        lines = [line for line in journal.lines(path) if line["set"] == digest]
        for run, recipe in {(line["run"], line["recipe"]) for line in lines}:
            times = sum((line["run"], line["recipe"]) == (run, recipe) for line in lines)
            yield Opened(run, recipe, times)


def _registered(tracking: TrackingConfig, digest: str) -> list[Opened]:
    """Returns the openings in MLflow's runs; empty if it is away."""
    client = _client(tracking)
    if client is None:
        return []
    try:
        found = client.get_experiment_by_name(tracking.experiment)
        runs = client.search_runs([found.experiment_id], f"tags.`{TAG}{digest}` LIKE '%'") if found else []
    except Exception:  # MLflow raises many kinds for "no answer"; those on this machine count anyway
        return []
    values = [(str(run.info.run_name), json.loads(run.data.tags[TAG + digest])) for run in runs]
    return [Opened(name, str(value["recipe"]), int(value["times"])) for name, value in values]


def _client(tracking: TrackingConfig) -> Any:
    """Returns MLflow's client; None if records are kept offline, or there is no database yet."""
    place = tracking.uri.removeprefix("sqlite:///")
    if tracking.offline or (place != tracking.uri and not Path(place).is_file()):
        return None
    with contextlib.suppress(UserError, ServiceError):
        return connect(resolve_paths(tracking))
    return None


def _tag(config: Config, folder: Path, run: str, tracked: TrackedRun | None, tags: dict[str, str]) -> None:
    """Tags the MLflow run: by its record, or at once if the bundle was downloaded and the run's folder is elsewhere."""
    if tracked is not None:
        tracked.tags(tags)
    elif (folder / SPOOL).is_dir():
        record = TrackedRun(config.tracking, folder, run, system=False, begin=False)
        record.tags(tags)
        record.leave()
    elif (client := _client(config.tracking)) is not None:
        try:
            found = client.get_experiment_by_name(config.tracking.experiment)
            named = client.search_runs([found.experiment_id], f"attributes.run_name = '{run}'") if found else []
            for key, value in tags.items() if named else ():
                client.set_tag(named[0].info.run_id, key, value)
        except Exception as problem:  # of MLflow's many; the line in the folder stays
            logger.warning(f"this opening is not counted in the registry ({type(problem).__name__})")
