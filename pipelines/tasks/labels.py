"""Networks that label texts: the task's row, and the work of one training process."""

import logging
from collections.abc import Callable, Generator, Iterable
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.plural import plural
from dragoman.model.shards.manifest import manifest_hash, read_manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.model.shards.stream import open_reader
from dragoman.model.text.labels import LabelTokenizer
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.sharded import shard_command
from dragoman.pipelines.loaders.labelled import LabelledLoader, held_out_labelled
from dragoman.pipelines.tasks import warm_start
from dragoman.pipelines.tasks.base import Plan, Task
from dragoman.pipelines.tasks.identity import check_shards, network_fingerprint
from dragoman.pipelines.tasks.labels_release import (
    compare,
    evaluate,
    fresh_network,
    judge,
    label_tokenizers,
    labels_of,
    record,
    save_bundle,
    write,
)
from dragoman.pipelines.tasks.network import check_held_out, needs_training, refuse_translation_settings, train_network
from dragoman.pipelines.tasks.parts import counted
from dragoman.pipelines.tasks.precision import refuse_unrunnable
from dragoman.pipelines.tasks.run import Run
from dragoman.pipelines.tasks.schedule import warn_of_warmup
from dragoman.pipelines.tasks.workers import check_lanes_of, worker_count
from dragoman.pipelines.training.final_weights import stored_weights, weights_hashes
from dragoman.pipelines.training.loop import Progress
from dragoman.pipelines.training.verification import replay_lanes

logger = logging.getLogger(__name__)


def train_rank(config: Config, ranks: Ranks, run: Run) -> Progress:
    """Trains on this rank until the run is over, from the run's newest checkpoint."""
    tokenizers = label_tokenizers(config)
    network = fresh_network(config, tokenizers)
    loader = make_loader(config, labels_of(tokenizers), ranks.rank, ranks.world)
    return train_network(config, ranks, run, network, loader, validation_batches(config, tokenizers, ranks))


def make_loader(config: Config, labels: LabelTokenizer, rank: int = 0, world: int = 1) -> LabelledLoader:
    """Returns the training split."""
    reader = open_reader(config.shard_dir, "train", config.loader.reader)
    return LabelledLoader(reader, labels, config.loader, config.seed, rank, world)


def validation_batches(config: Config, tokenizers: TokenizerPair, ranks: Ranks) -> Callable[[], Iterable[TextBatch]]:
    """Yields this rank's share of the validation split, anew at each call."""
    settings, labels = config.loader, labels_of(tokenizers)
    reader = ShardReader(config.shard_dir, "valid")
    longest = min(settings.max_length, settings.batch_tokens)
    return lambda: held_out_labelled(reader, labels, longest, settings.batch_tokens, ranks.rank, ranks.world)


def validate(config: Config) -> None:
    """Reports all mistakes that can be known before any worker starts.

    Raises UserError: a setting is out of range, shards are missing, of another kind or of other labels, a model or
    lanes. Raises do not fit them, or a setting is for other models.
    """
    config.train.check()
    manifest = read_manifest(config.shard_dir)
    if manifest.kind != "labelled":
        raise UserError(
            f"paths.shards={config.shard_dir}: holds {manifest.kind} texts, and model={config.model['name']} needs "
            f"labelled ones: {shard_command('corpus=labelled', 'pair=en', beside=config.paths.shards)}"
        )
    check_shards(config)
    refuse_translation_settings(config, "a model that labels")
    check_held_out(config, manifest)
    tokenizers = label_tokenizers(config)
    labels = labels_of(tokenizers)
    network = fresh_network(config, tokenizers)
    refuse_unrunnable(config, network)
    warn_of_warmup(config)
    longest, most = min(config.loader.max_length, config.loader.batch_tokens), getattr(network, "max_positions", None)
    if most is not None and longest > most:
        raise UserError(f"loader.max_length={longest}: the network has only model.max_positions={most}")
    processes = worker_count(config)
    make_loader(config, labels, 0, processes).close()
    ShardReader(config.shard_dir, "valid")
    described = f"{len(labels.labels)} {labels.task}" if labels.labels else "numbers"
    logger.info(
        f"{config.name}: {config.model['name']}, {counted(network)}; {described} of "
        f"{manifest.split('train').records:,} texts in {manifest.languages[0]}; {plural(processes, 'worker')}, "
        f"{plural(config.loader.lanes, 'lane')} of {config.loader.batch_tokens:,} tokens; "
        f"shards {manifest_hash(config.shard_dir)[:12]}"
    )


def fingerprint(config: Config) -> dict[str, Any]:
    """Returns the run's identity: everything that the weights after a given step depend on."""
    return {**network_fingerprint(config, LabelledLoader.of), **warm_start.identity(config)}


def plan(config: Config) -> Plan:
    """Finds the encoder's initial weights once, before the ranks start."""
    warm_start.keep(config, label_tokenizers(config))
    return Plan(config.train.max_steps, "labels", config.cluster)


def replay(config: Config) -> Generator[tuple[int, int]]:
    """Yields (digest, labels) of each step's batches."""
    return replay_lanes(make_loader(config, labels_of(label_tokenizers(config))))


LABELS = Task(
    kind="labels",
    unread=("vectors", "embeddings", "decode"),
    validate=validate,
    validate_settings=check_lanes_of,
    fingerprint=fingerprint,
    needs_training=needs_training,
    plan=plan,
    train_rank=train_rank,
    weights_origin=lambda config: weights_hashes(config.run_dir, config.train),
    stored_origin=stored_weights,
    save_bundle=save_bundle,
    record=record,
    evaluate=evaluate,
    write=write,
    compare=compare,
    judge=judge,
    replay=replay,
)
