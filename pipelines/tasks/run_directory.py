"""The folder of a run: whose it is, how far it has come, what it was released as."""

import json
import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from model.errors import UserError
from model.languages import same_pair
from model.networks.architectures import ARCHITECTURES, model_config
from model.renamed import current_values
from model.runs import checkpoints, journal, paths, record
from model.runs.record import PLANS, read_record, write_record
from model.shards.manifest import manifest_hash, read_manifest
from model.shards.verify import verify_once
from model.storage.mirror import remote_of
from pipelines.config import Config
from pipelines.loaders.prefetch import check_lanes
from pipelines.settings import LoaderConfig, TrainConfig
from pipelines.tasks.precision import read_precision
from pipelines.tracking.run import TrackedRun
from pipelines.training.loop import limits

logger = logging.getLogger(__name__)


def worker_sizes(config: Config) -> tuple[int, ...]:
    """How many processes may train, in ascending order: of a range those that can share the run's lanes evenly."""
    if config.cluster.backend != "ray":
        return (int(os.environ.get("WORLD_SIZE", "1")),)
    lanes = config.loader.lanes
    sizes = range(config.cluster.least, config.cluster.most + 1)
    return tuple(size for size in sizes if not lanes or lanes % size == 0) or (config.cluster.most,)


def worker_count(config: Config) -> int:
    """How many processes will train at most."""
    return worker_sizes(config)[-1]


def with_lanes(config: Config, runs: Iterable[Path]) -> Config:
    """The configuration with its number of lanes settled, where `loader.lanes` leaves it open (0).

    It is that of the first of `runs` that has begun, which goes on with the same batches on any number of ranks that
    divides it; else one a rank, two at least.
    """
    if config.loader.lanes:
        return config
    begun = (read_record(run) for run in runs)
    kept = (record["loader"]["lanes"] for record in begun if record and "loader" in record)
    return replace(config, loader=replace(config.loader, lanes=next(kept, max(2, worker_count(config)))))


def check_shards(config: Config) -> None:
    """Read every byte of the shards once and remember it: a flipped token id would train without a word.

    Raises:
        UserError: a file is missing or is not the one in the manifest, or shards of other languages than `pair`.
    """
    manifest = read_manifest(config.shard_dir)
    if not same_pair("-".join(manifest.languages), "-".join(config.languages)):
        raise UserError(f"pair={config.pair}: the shards in {config.shard_dir} are {'-'.join(manifest.languages)}")
    if is_first() and remote_of(config.shard_dir) is None:  # of those elsewhere each is checked when it is fetched
        verify_once(config.shard_dir, config.paths.local(config.paths.root) / "verified")


def is_first() -> bool:
    """Whether this process speaks for the run: torchrun starts the same command on every rank."""
    return int(os.environ.get("RANK", "0")) == 0


def warn_of_warmup(config: Config) -> None:
    """Say that a run will hardly train at its learning rate: most such warm-ups were meant for a longer run."""
    warmup, steps = config.train.optimizer.warmup_steps, config.train.max_steps
    if 3 * warmup > steps:
        logger.warning(
            f"train.optimizer.warmup_steps={warmup}: more than a third of train.max_steps={steps}; the learning rate "
            + (f"reaches {config.train.optimizer.lr:g} late" if warmup < steps else "never reaches its height")
            + f", and {max(1, steps // 10)} would leave it time to fall"
        )


def network_fingerprint(config: Config, of_loader: Sequence[str]) -> dict[str, Any]:
    """What makes two starts of a network's training the same run: all that the weights after a given step depend on.

    `of_loader`: the settings that its loader's order depends on.
    """
    train = asdict(config.train)
    return {
        "seed": config.seed,
        "shards": manifest_hash(config.shard_dir),
        "model": asdict(model_config(config.model)),
        "loader": {key: getattr(config.loader, key) for key in of_loader},
        "train": {key: train[key] for key in ("precision", "optimizer", "loss")},
    }


def claim_run_dir(config: Config, fingerprint: dict[str, Any]) -> None:
    """Make the run's folder, or check that it belongs to the same run: to one of this fingerprint.

    Raises:
        UserError: a run of this name was started with other settings; names each.
    """
    check_run_dir(config, fingerprint)
    if not paths.begun(config.run_dir):
        config.run_dir.mkdir(parents=True, exist_ok=True)
        write_record(config.run_dir, fingerprint)


def check_run_dir(config: Config, fingerprint: dict[str, Any]) -> None:
    """Check that the run's folder, where there is one, belongs to a run of this fingerprint.

    Raises:
        UserError: a run of this name was started with other settings; names each.
    """
    found = read_record(config.run_dir)
    if found is None:
        return
    stored = current_values(found)
    stored.pop(PLANS, None)
    kept, asked = (of.get("train", {}).get("precision") for of in (stored, fingerprint))
    # A run keeps the precision that it began in, whether that was asked for or is what `auto` chose.
    if asked and asked in ("auto", read_precision(config.run_dir) if kept == "auto" else kept):
        fingerprint = {**fingerprint, "train": {**fingerprint["train"], "precision": kept}}
    if stored.get("model", {}).get("architecture") in ARCHITECTURES:  # not word vectors
        # What has been given a switch since then is the same while that is at its default.
        stored["model"] = asdict(model_config(stored["model"]))
        stored = _with_younger(stored, fingerprint, {"loader": asdict(LoaderConfig()), "train": asdict(TrainConfig())})
    differences = [
        f"{key} was {before!r}, is {now!r}"
        for key, before, now in _differences(stored, json.loads(json.dumps(fingerprint)))
    ]
    if differences:
        raise UserError(
            f"name={config.name}: the run in {config.run_dir} was started with other settings: "
            f"{'; '.join(differences)}. Choose another name=, or put the settings back to go on with it"
        )


def _with_younger(stored: Any, now: Any, defaults: Any) -> Any:
    """`stored` with the settings of `now` that it does not know, as it ran without them: at their defaults."""
    if not (isinstance(stored, dict) and isinstance(now, dict) and isinstance(defaults, dict)):
        return stored
    known = {
        key: _with_younger(stored[key], now[key], defaults[key]) for key in stored.keys() & now.keys() & defaults.keys()
    }
    younger = {key: defaults[key] for key in (now.keys() & defaults.keys()) - stored.keys()}
    return {**stored, **known, **younger}


def _differences(before: Any, now: Any, where: str = "") -> Iterable[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            yield from _differences(before.get(key), now.get(key), f"{where}.{key}" if where else key)
    elif before != now:
        yield where, before, now


def check_lanes_of(config: Config) -> None:
    """Raises UserError where the workers cannot share the lanes evenly; needs no shards."""
    check_lanes(config.loader.lanes, worker_count(config))


def needs_training(config: Config) -> bool:
    """Whether there is anything left to train of a network."""
    newest = checkpoints.newest(config.run_dir)
    if newest is None:
        return True
    state = checkpoints.state(newest)
    step, max_steps = state["step"], config.train.max_steps
    over = step >= max_steps or (state["stopped"] and state["limits"] == limits(config.train))
    then = "is trained to its end" if over else f"goes on to step {max_steps:,}"
    logger.info(f"{config.name}: found the checkpoint of step {step:,}; the run {then}")
    return not over


def newest_step(config: Config) -> int:
    """The step of the newest checkpoint; 0 where there is none."""
    newest = checkpoints.newest(config.run_dir)
    return 0 if newest is None else int(checkpoints.state(newest)["step"])


def origin_facts(config: Config, tracked: TrackedRun) -> dict[str, Any]:
    """What every bundle says of the shards and the run that it is from."""
    manifest = read_manifest(config.shard_dir)
    return {
        "normalisation": manifest.normalisation,
        "manifest_hash": manifest_hash(config.shard_dir),
        "sources": manifest.sources,
        "run": {"name": config.name, "id": tracked.run_id},
        "records": journal.heads(config.run_dir),
    }


def write_release(config: Config, tracked: TrackedRun, version: str | None, **measured: Any) -> None:
    """RUN/release.json: where everything is and what was `measured`, for whoever comes next."""
    content = {
        "run": config.name,
        "run_id": tracked.run_id,
        "bundle": str(config.run_dir / paths.BUNDLE),
        "model": config.registry.name,
        "version": version,
        "shards": str(config.shard_dir),
        **measured,
    }
    record.write_release(config.run_dir, content)
