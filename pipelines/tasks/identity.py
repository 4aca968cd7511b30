"""Decides whether two starts are the same run: checked before a start, and stored in every bundle."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from dragoman.model.bundles.ancestry import tokenizer_facts
from dragoman.model.errors import UserError
from dragoman.model.languages import same_pair
from dragoman.model.networks.architectures import model_config
from dragoman.model.runs import paths
from dragoman.model.runs.record import PLANS, read_record, write_record
from dragoman.model.schema import build, flat
from dragoman.model.shards.manifest import manifest_hash, read_manifest
from dragoman.model.shards.verify import verify_once
from dragoman.model.storage.mirror import remote_of
from dragoman.pipelines.config import Config
from dragoman.pipelines.settings import EmbeddingsConfig, LoaderConfig, TrainConfig
from dragoman.pipelines.tasks.precision import read_precision
from dragoman.pipelines.tasks.workers import is_first
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.word_vectors.settings import VectorsConfig


def check_shards(config: Config) -> None:
    """Reads every byte of the shards once and records that: a flipped token id would be trained on silently."""
    manifest = read_manifest(config.shard_dir)
    if not same_pair("-".join(manifest.languages), "-".join(config.languages)):
        raise UserError(f"pair={config.pair}: the shards in {config.shard_dir} are {'-'.join(manifest.languages)}")
    if is_first() and remote_of(config.shard_dir) is None:  # remote shards are checked when they are fetched
        verify_once(config.shard_dir, config.paths.local(config.paths.root) / "verified")


def network_fingerprint(config: Config, of_loader: Sequence[str]) -> dict[str, Any]:
    """Returns the identity of a network's training: all that the weights after a given step depend on.

    `of_loader`: the settings that the order of its loader depends on.
    """
    train, loader = asdict(config.train), asdict(config.loader)
    return {
        "seed": config.seed,
        "shards": manifest_hash(config.shard_dir),
        "model": asdict(model_config(config.model)),
        "loader": {key: loader[key] for key in of_loader},
        "train": {key: train[key] for key in ("precision", "optimizer", "loss")},
        **config.train.beginning,
        **({"embeddings": asdict(config.embeddings)} if config.embeddings.references else {}),
    }


def recorded_config(config: Config, record: Mapping[str, Any]) -> Config:
    """Returns the configuration with the settings that a run's identity has."""
    of_training = {key: record[key] for key in record.keys() & TrainConfig.__dataclass_fields__.keys()}
    return replace(
        config,
        seed=int(record.get("seed", config.seed)),
        model=record["model"],
        loader=build(LoaderConfig, record.get("loader", {}), "loader"),
        train=build(TrainConfig, {**record.get("train", {}), **of_training}, "train"),
        embeddings=build(EmbeddingsConfig, record.get("embeddings", {}), "embeddings"),
        vectors=build(VectorsConfig, record.get("vectors", {}), "vectors"),
    )


def claim_run_dir(config: Config, fingerprint: dict[str, Any]) -> None:
    """Creates the run's folder, or checks that it belongs to a run of this fingerprint."""
    check_run_dir(config, fingerprint)
    if not paths.begun(config.run_dir):
        config.run_dir.mkdir(parents=True, exist_ok=True)
        write_record(config.run_dir, fingerprint)


def check_run_dir(config: Config, fingerprint: dict[str, Any]) -> None:
    """Checks that the run's folder, if there is one, belongs to a run of this fingerprint."""
    record = read_record(config.run_dir)
    if record is None:
        return
    stored = {key: value for key, value in record.items() if key != PLANS}
    kept, precision = (of.get("train", {}).get("precision") for of in (stored, fingerprint))
    # A run keeps the precision that it began in, whether it was asked for or chosen by `auto`.
    if precision and precision in ("auto", read_precision(config.run_dir) if kept == "auto" else kept):
        fingerprint = {**fingerprint, "train": {**fingerprint["train"], "precision": kept}}
    old, new = dict(flat(stored)), dict(flat(json.loads(json.dumps(fingerprint))))
    differing = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    differences = [f"{key} was {old.get(key)!r}, is {new.get(key)!r}" for key in differing]
    if differences:
        raise UserError(
            f"name={config.name}: the run in {config.run_dir} was started with other settings: "
            f"{'; '.join(differences)}. Choose another name=, or put the settings back to go on with it"
        )


def check_same_shards(config: Config) -> None:
    """Checks on a rank that its shards are the run's: they may be made again while a command lasts."""
    shards = (read_record(config.run_dir) or {}).get("shards")
    if shards is not None and shards != (found := manifest_hash(config.shard_dir)):
        raise UserError(
            f"{config.shard_dir}: not the shards that {config.name} began with (manifest {found[:12]}, then "
            f"{shards[:12]}). Put those back to go on with it, or choose another name="
        )


def origin_facts(config: Config, tracked: TrackedRun) -> dict[str, Any]:
    """Returns what every bundle stores about its shards and its run."""
    manifest = read_manifest(config.shard_dir)
    return {
        **tokenizer_facts(manifest),
        "normalisation": manifest.normalisation,
        "manifest_hash": manifest_hash(config.shard_dir),
        "sources": manifest.sources,
        "run": {"name": config.name, "id": tracked.run_id},
    }
