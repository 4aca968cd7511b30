"""Networks that label texts: the task's row, and the work of one training process."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dragoman.model.alignment.attention_plots import save
from dragoman.model.bundles.labelled import LabelBundle, load_label_bundle
from dragoman.model.bundles.network import save_bundle as write_bundle
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import any_network, model_config
from dragoman.model.networks.heads import Head
from dragoman.model.plural import plural
from dragoman.model.runs.paths import label_picture
from dragoman.model.runs.record import write_evaluation
from dragoman.model.shards.manifest import LABELS as SIDE
from dragoman.model.shards.manifest import manifest_hash, read_manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.model.shards.stream import open_reader
from dragoman.model.text.labels import LabelTokenizer
from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.model.text.tokenizers import load_pair
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.sharded import shard_command
from dragoman.pipelines.evaluation.labels.evaluation import LabelEvaluation, evaluate_label_bundle, report
from dragoman.pipelines.evaluation.labels.evaluation import compare as significance
from dragoman.pipelines.evaluation.labels.plots import pictures
from dragoman.pipelines.loaders.labelled import LabelledLoader, held_out_labelled
from dragoman.pipelines.tasks import warm_start
from dragoman.pipelines.tasks.base import Measured, Plan, Task
from dragoman.pipelines.tasks.identity import check_shards, network_fingerprint
from dragoman.pipelines.tasks.network import (
    check_held_out,
    check_positions,
    final_network,
    needs_training,
    refuse_translation_settings,
    train_network,
)
from dragoman.pipelines.tasks.parts import counted
from dragoman.pipelines.tasks.precision import refuse_unrunnable
from dragoman.pipelines.tasks.run import Run
from dragoman.pipelines.tasks.schedule import warn_of_warmup
from dragoman.pipelines.tasks.split_comparison import compare_rivals, judge_by_split
from dragoman.pipelines.tasks.workers import check_lanes_of, worker_count
from dragoman.pipelines.tracking.plots import curves
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.training.final_weights import stored_weights, weights_hashes
from dragoman.pipelines.training.loop import Progress
from dragoman.pipelines.training.verification import replay_lanes

LOSSES = {"numbers": "half the squared deviation"}


def label_tokenizers(config: Config) -> TokenizerPair:
    return load_pair(config.shard_dir, read_manifest(config.shard_dir).tokenizer)


def labels_of(tokenizers: TokenizerPair) -> LabelTokenizer:
    """Returns the labels of labelled shards."""
    if not isinstance(tokenizers.target, LabelTokenizer):
        raise UserError("paths.shards: the shards have no labels; corpus=labelled makes some that have")
    return tokenizers.target


def fresh_network(config: Config, tokenizers: TokenizerPair) -> Head:
    """Returns the untrained network of the configuration; every rank draws the same weights from the seed."""
    labels = labels_of(tokenizers)
    torch.manual_seed(config.seed)
    network = any_network(model_config(config.model), tokenizers.source.vocabulary, labels.vocabulary)
    assert isinstance(network, Head), "the task is that of heads"
    if network.head != labels.task:
        raise UserError(
            f"model.head={network.head}: the shards in {config.shard_dir} have {labels.task}; model.head={labels.task} "
            f"learns them"
        )
    warm_start.initialise(config, network, tokenizers)
    return network


def save_bundle(config: Config, directory: Path, tracked: TrackedRun) -> LabelBundle:
    """Saves the final weights with everything that labelling needs."""
    tokenizers = label_tokenizers(config)
    sizes = tokenizers.source.vocabulary, tokenizers.target.vocabulary
    network, origin = final_network(config, tracked, *sizes)
    assert isinstance(network, Head), "the task is that of heads"
    facts = {"pair": read_manifest(config.shard_dir).languages[0], **origin}
    write_bundle(
        directory,
        network=network,
        config=model_config(config.model),
        tokenizers=tokenizers,
        facts=json.loads(json.dumps(facts)),
    )
    return load_label_bundle(directory)


def evaluate(config: Config, bundle: LabelBundle) -> Measured:
    """Runs `evaluate_label_bundle` by the section `evaluate`."""
    settings = config.evaluate
    evaluation = evaluate_label_bundle(bundle, config.shard_dir, settings.split, settings.sentences, settings.samples)
    return Measured.of_split(evaluation, report(evaluation), evaluation.scores)


def write(measured: Measured, directory: Path) -> Sequence[Path]:
    """Writes the record and the pictures; returns their paths."""
    evaluation: LabelEvaluation = measured.details
    paths = [write_evaluation(directory, evaluation.split, evaluation.record())]
    for name, figure in pictures(evaluation).items():
        paths.append(label_picture(directory, name, evaluation.split))
        save(figure, paths[-1])
    return paths


def record(config: Config, _bundle: LabelBundle, measured: Measured, tracked: TrackedRun) -> None:
    """Records the mistakes, the curves and the pictures."""
    evaluation: LabelEvaluation = measured.details
    rows = [[mistake.text, mistake.truth, mistake.guess, mistake.score] for mistake in evaluation.mistakes]
    tracked.table(["text", "truth", "guess", "score"], rows, "mistakes.json")
    loss = LOSSES.get(evaluation.task, "nats per {}")
    tracked.figure(curves(tracked.history(), config.name, "label", loss), "curves.png")
    for name, figure in pictures(evaluation).items():
        tracked.figure(figure, f"evaluation/{name}-{evaluation.split}.png")


def floor(evaluation: LabelEvaluation) -> tuple[str, LabelEvaluation]:
    """Returns a model that answers everything with the most frequent label, or the median number."""
    if evaluation.task == "numbers":
        gold = np.array([float(number) for number in evaluation.gold])
        return "the median", replace(evaluation, wrong=np.abs(gold - np.median(gold)))
    [(label, _)] = Counter(evaluation.gold).most_common(1)
    wrong = np.array([truth != label for truth in evaluation.gold], np.float64)
    wrong = np.add.reduceat(wrong, np.cumsum(evaluation.sizes) - evaluation.sizes)
    return "the most frequent label", replace(evaluation, wrong=wrong)


judge = judge_by_split(
    metrics=("auto",),
    compared_by="models that label are compared by accuracy, of numbers by the mean error",
    measure=lambda bundle, shards, split: evaluate_label_bundle(load_label_bundle(bundle), shards, split, samples=0),
    test=significance,
    floor=floor,
    sides=lambda evaluation: (evaluation.language, SIDE),
)
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
    lanes do not fit them, or a setting is for other models.
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
    check_positions("max_length", min(config.loader.max_length, config.loader.batch_tokens), network)
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
    compare=partial(compare_rivals, evaluate, significance),
    judge=judge,
    replay=replay,
)
