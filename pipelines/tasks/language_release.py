"""Releases a language model, plain or masked: its bundle, its scores on a held-out text, its rivals."""

import json
import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from dragoman.model.bundles.language import TextBundle, load_text_bundle, save_text_bundle
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import any_network, model_config
from dragoman.model.networks.network import Network
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.text.tokenizer import Tokenizer, TokenizerPair
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.language.comparison import compare as significance
from dragoman.pipelines.evaluation.language.evaluation import (
    TextEvaluation,
    evaluate_text_bundle,
    report,
    write_text_evaluation,
)
from dragoman.pipelines.evaluation.language.plots import surprise_by_line
from dragoman.pipelines.evaluation.translation import gate_split, held_out_lines
from dragoman.pipelines.loaders.segments import side_number
from dragoman.pipelines.loaders.text import side_tokenizer
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

METRICS = ("auto", "likelihood")


def text_tokenizer(config: Config) -> Tokenizer:
    """Returns the tokenizer of the training text."""
    return side_tokenizer(config.shard_dir, read_manifest(config.shard_dir), config.loader.side)


def fresh_network(config: Config, tokenizer: Tokenizer) -> Network:
    """Returns the untrained network of the configuration; every rank draws the same weights from the seed."""
    torch.manual_seed(config.seed)
    network = any_network(model_config(config.model), tokenizer.vocabulary, tokenizer.vocabulary)
    warm_start.initialise(config, network, TokenizerPair(tokenizer, tokenizer))
    return network


def save_bundle(config: Config, directory: Path, tracked: TrackedRun) -> TextBundle:
    """Saves the final weights with everything that reading, writing and guessing text needs."""
    manifest, settings = read_manifest(config.shard_dir), config.loader
    tokenizer = text_tokenizer(config)
    network, origin = final_network(config, tracked, tokenizer.vocabulary, tokenizer.vocabulary)
    facts = {
        "pair": manifest.languages[side_number(manifest, settings.side, "loader.side")],
        **origin,
        "masking": {"share": settings.mlm_probability, "whole_words": settings.whole_words},
    }
    save_text_bundle(
        directory,
        network=network,
        config=model_config(config.model),
        tokenizer=tokenizer,
        facts=json.loads(json.dumps(facts)),
    )
    return load_text_bundle(directory)


def evaluate(config: Config, bundle: TextBundle) -> Measured:
    """Runs `evaluate_text_bundle` by the section `evaluate`."""
    settings = config.evaluate
    evaluation = evaluate_text_bundle(
        bundle,
        config.shard_dir,
        settings.split,
        stride=settings.stride,
        records=settings.sentences,
        samples=settings.samples,
    )
    scores = evaluation.scores()
    return Measured(
        report=report(evaluation),
        scores={f"{evaluation.split}_{name}": value for name, value in scores.items()},
        facts={evaluation.split: scores},
        summary={"scores": scores},
        details=evaluation,
    )


def write(measured: Measured, directory: Path) -> Sequence[Path]:
    """Writes the record and returns its path."""
    return [write_text_evaluation(measured.details, directory)]


def record(config: Config, _bundle: TextBundle, measured: Measured, tracked: TrackedRun) -> None:
    """Records samples and curves."""
    evaluation: TextEvaluation = measured.details
    names = ["masked", "guessed", "truth"] if evaluation.kind == "masked" else ["prompt", "continuation", "truth"]
    tracked.table(names, [[sample.prompt, sample.text, sample.truth] for sample in evaluation.samples], "samples.json")
    tracked.figure(curves(tracked.history(), config.name, "token"), "curves.png")
    tracked.figure(surprise_by_line(evaluation), f"evaluation/surprise-{evaluation.split}.png")


def compare(config: Config, measured: Measured, rivals: Sequence[TextBundle], _directory: Path) -> str:
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
    """Compares the candidate with the champion by the likelihood of a held-out split of `shards`."""
    if config.metric not in METRICS:
        raise UserError(
            f"promote.metric={config.metric}: language models are compared by the likelihood of a text. "
            f"Choices: {', '.join(METRICS)}"
        )
    split = gate_split(shards, config.split)
    ours = measure(registry, candidate, split, shards)
    baseline = ours.unigram if champion is None else measure(registry, champion, split, shards)
    paired = significance(baseline, ours, config.samples)
    return Comparison(
        paired.metric,
        paired.candidate,
        paired.baseline,
        paired.p_value,
        paired.items,
        "records",
        lower_is_better=True,
        digits=4,
        floor="the tokens' frequencies in it" if champion is None else "",
        gate=set_name(held_out_lines(shards, split, ours.language)),
        of=split,
    )


def measure(registry: Registry, version: Version, split: str, shards: Path) -> TextEvaluation:
    """Returns a version's evaluation; a download is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = load_text_bundle(registry.bundle(version, Path(folder)))
        return evaluate_text_bundle(bundle, shards, split, samples=0)
