"""Releases a network that labels: its bundle, its scores on held-out texts, its rivals."""

import json
import logging
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from dragoman.model.alignment.attention_plots import save
from dragoman.model.bundles.labelled import LabelBundle, load_label_bundle, save_label_bundle
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import any_network, model_config
from dragoman.model.networks.heads import Head
from dragoman.model.runs.paths import label_picture
from dragoman.model.runs.record import write_evaluation
from dragoman.model.shards.manifest import LABELS, read_manifest
from dragoman.model.text.labels import LabelTokenizer
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.model.text.tokenizers import load_pair
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.labels.comparison import compare as significance
from dragoman.pipelines.evaluation.labels.evaluation import LabelEvaluation, evaluate_label_bundle, report
from dragoman.pipelines.evaluation.labels.plots import pictures
from dragoman.pipelines.evaluation.translation import gate_split, held_out_lines
from dragoman.pipelines.tasks import warm_start
from dragoman.pipelines.tasks.base import Measured
from dragoman.pipelines.tasks.network import final_network
from dragoman.pipelines.tracking.gate import set_name
from dragoman.pipelines.tracking.plots import curves
from dragoman.pipelines.tracking.promotion import Comparison, PromoteConfig
from dragoman.pipelines.tracking.registry import Registry, Version
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.word_vectors.settings import EvaluateVectors

logger = logging.getLogger(__name__)
METRICS = ("auto",)
LOSSES = {"numbers": "half the squared deviation"}


def label_tokenizers(config: Config) -> TokenizerPair:
    """Returns the tokenizer of the texts, and the labels."""
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
    save_label_bundle(
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
    return Measured(
        report=report(evaluation),
        scores={f"{evaluation.split}_{name}": value for name, value in evaluation.scores.items()},
        facts={evaluation.split: evaluation.scores},
        summary={"scores": evaluation.scores},
        details=evaluation,
    )


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


def compare(config: Config, measured: Measured, rivals: Sequence[LabelBundle], _directory: Path) -> str:
    """Returns a line per rival: both scores, their difference and its probability by chance."""
    significances = (
        significance(evaluate(config, rival).details, measured.details, config.evaluate.bootstrap) for rival in rivals
    )
    return "\n\n".join(map(str, significances))


def judge(
    registry: Registry,
    candidate: Version,
    champion: Version | None,
    config: PromoteConfig,
    shards: Path,
    _sets: EvaluateVectors,
) -> Comparison:
    """Compares the candidate with the champion by their labels of a held-out split of `shards`."""
    if config.metric not in METRICS:
        raise UserError(
            f"promote.metric={config.metric}: models that label are compared by accuracy, of numbers by the mean "
            f"error. Choices: {', '.join(METRICS)}"
        )
    split = gate_split(shards, config.split)
    ours = measure(registry, candidate, split, shards)
    baseline = most_frequent(ours) if champion is None else measure(registry, champion, split, shards)
    paired = significance(baseline, ours, config.samples)
    texts = [*held_out_lines(shards, split, ours.language), *held_out_lines(shards, split, LABELS)]
    return Comparison(
        paired.metric,
        paired.candidate,
        paired.baseline,
        paired.p_value,
        paired.items,
        "texts",
        lower_is_better=paired.lower_is_better,
        digits=4,
        gate=set_name(texts),
        floor={"numbers": "the median"}.get(ours.task, "the most frequent label") if champion is None else "",
        of=split,
    )


def most_frequent(evaluation: LabelEvaluation) -> LabelEvaluation:
    """Returns the evaluation of a model that answers everything with the most frequent label, or the median number."""
    if evaluation.task == "numbers":
        gold = np.array([float(number) for number in evaluation.gold])
        return replace(evaluation, wrong=np.abs(gold - np.median(gold)))
    [(label, _)] = Counter(evaluation.gold).most_common(1)
    wrong = np.array([truth != label for truth in evaluation.gold], np.float64)
    return replace(evaluation, wrong=np.add.reduceat(wrong, np.cumsum(evaluation.sizes) - evaluation.sizes))


def measure(registry: Registry, version: Version, split: str, shards: Path) -> LabelEvaluation:
    """Returns a version's evaluation; a download is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = load_label_bundle(registry.bundle(version, Path(folder)))
        return evaluate_label_bundle(bundle, shards, split, samples=0)
