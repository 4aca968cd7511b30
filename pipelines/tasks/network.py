"""The work of one training process of a network of any kind: its record, its trainer, its end."""

import contextlib
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from dragoman.model.bundles.ancestry import ancestry
from dragoman.model.bundles.weights import fill
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import any_network, architecture, model_config
from dragoman.model.networks.network import Network
from dragoman.model.runs import checkpoints
from dragoman.model.shards.manifest import Manifest
from dragoman.model.text.text_batch import Batch
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.sharded import cutting, shard_command, training_file
from dragoman.pipelines.tasks import pretrained_embeddings, teachers, warm_start
from dragoman.pipelines.tasks.base import Task
from dragoman.pipelines.tasks.identity import origin_facts
from dragoman.pipelines.tasks.parts import rates, share
from dragoman.pipelines.tasks.precision import settle_precision
from dragoman.pipelines.tasks.run import Run
from dragoman.pipelines.tasks.workers import check_lanes_of
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.training.final_weights import (
    final_weights,
    keep_last,
    stored_weights,
    weights_facts,
    weights_hashes,
)
from dragoman.pipelines.training.loop import Loader, Progress, Trainer, limits

logger = logging.getLogger(__name__)


def rank_record(run: Run, ranks: Ranks) -> "contextlib.AbstractContextManager[TrackedRun | None]":
    """Returns the run's record for a block on the first rank, None on the others; the driver continues it."""
    return run.shared_record(begin=False) if ranks.first else contextlib.nullcontext()


def train_network(
    config: Config,
    ranks: Ranks,
    run: Run,
    network: Network,
    loader: Loader,
    held_out: Callable[[], Iterable[Batch]],
    bleu: Callable[[], float] | None = None,
) -> Progress:
    """Trains on this rank until the run is over, from the run's newest checkpoint, and closes the loader."""
    with contextlib.closing(loader), rank_record(run, ranks) as tracked:
        if tracked:
            tracked.tags(ancestry(begun_with(config)))
            if (trained := share(network)) < 1:
                tracked.metrics(0, {"trained_share": trained})
        trainer = Trainer(
            network,
            architecture(config.model["architecture"]).loss,
            loader,
            config.loader.lanes,
            settle_precision(config, network, ranks, tracked),
            run.folder,
            ranks,
            config.seed,
            held_out=held_out,
            bleu=bleu,
            scales=rates(config, network),
        )
        return trainer.run(tracked.metrics if tracked else lambda step, values: None)


def begun_with(config: Config) -> dict[str, Any]:
    """Returns the bundle's facts about the models that gave the run weights, probabilities or word vectors."""
    return {**warm_start.facts(config), **teachers.facts(config), **pretrained_embeddings.facts(config)}


def final_network(config: Config, tracked: TrackedRun, source: int, target: int) -> tuple[Network, dict[str, Any]]:
    """Returns the network with its final weights, in evaluation mode, and what its bundle says of its origin.

    `source`, `target`: the sizes of its vocabularies.
    """
    weights, steps = final_weights(config.run_dir, config.train)
    network = any_network(model_config(config.model), source, target)
    fill(network, weights, str(config.run_dir))
    of_weights = {"weights": weights_facts(config.run_dir, config.train, steps)}
    return network.eval(), {**origin_facts(config, tracked), **of_weights, **begun_with(config)}


def refuse_translation_settings(config: Config, kind: str) -> None:
    """Raises UserError for settings that only translation models read; `kind` is the model in a message."""
    refuse_noise(config)
    refuse_bleu(config, kind)
    train = config.train
    if config.embeddings.references:
        raise UserError("embeddings.source: only translation models start from word vectors")
    if train.loss.rdrop:
        raise UserError(f"train.loss.rdrop={train.loss.rdrop:g}: only translation models are trained so; choose 0")
    if train.teachers:
        raise UserError(f"train.teachers={train.teachers}: only translation models are taught; choose []")


def refuse_bleu(config: Config, kind: str) -> None:
    """Raises UserError if BLEU is to be measured during a training that learns no translation."""
    train = config.train
    if train.early_stopping.metric == "bleu" or train.bleu_every:
        watched = train.early_stopping.metric == "bleu"
        key = "early_stopping.metric=bleu" if watched else f"bleu_every={train.bleu_every}"
        raise UserError(f"train.{key}: {kind} translates nothing; early stopping may watch the loss")


def check_held_out(config: Config, manifest: Manifest) -> None:
    """Raises UserError if the shards hold out no validation set, or not the split to evaluate on."""
    texts, cut = manifest.texts, cutting(manifest, config.corpus.cut.run)
    for key, split in (("", "valid"), ("evaluate.split=", config.evaluate.split)):
        if split not in texts:
            file = training_file(manifest, config.corpus.train.file)
            more = f"this sets texts aside: {shard_command(*file, *cut, beside=config.paths.shards)}"
            if key and texts:
                more = f"evaluate.split={next(iter(texts))} scores on that"
            raise UserError(f"{key}{split}: {config.shard_dir} holds out {', '.join(texts) or 'nothing'}; {more}")


def check_positions(key: str, length: int, network: Network) -> None:
    """Raises UserError if rows would be longer than the network's positions."""
    most = getattr(network, "max_positions", None)
    if most is not None and length > most:
        raise UserError(f"loader.{key}={length}: the network has only model.max_positions={most}")


def refuse_noise(config: Config) -> None:
    """Raises UserError for the noise of encoder-decoders, where no network of the kind reads it."""
    if config.loader.denoise != "none":
        raise UserError(
            f"loader.denoise={config.loader.denoise}: only encoder-decoders are pre-trained so; choose none, or "
            f"model=transformer_tiny"
        )


def needs_training(config: Config) -> bool:
    """Returns True if a network's training is not finished."""
    newest = checkpoints.newest(config.run_dir)
    if newest is None:
        return True
    state = checkpoints.state(newest)
    step, max_steps = state["step"], config.train.max_steps
    over = step >= max_steps or (state["stopped"] and state["limits"] == limits(config.train))
    if step == max_steps:
        keep_last(config.run_dir, step)
    then = "is trained to its end" if over else f"goes on to step {max_steps:,}"
    logger.info(f"{config.name}: found the checkpoint of step {step:,}; the run {then}")
    return not over


# A row of a kind whose networks are trained by `train_network`.
network_task = partial(
    Task,
    validate_settings=check_lanes_of,
    needs_training=needs_training,
    weights_origin=lambda config: weights_hashes(config.run_dir, config.train),
    stored_origin=stored_weights,
)
