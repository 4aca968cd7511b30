"""From the last checkpoints to a registered version: average, bundle, measure, sample, register."""

import json
import logging
from pathlib import Path
from typing import Any

from model.bundles.directory import update_facts
from model.bundles.language import save_text_bundle
from model.bundles.translation import fill
from model.networks.architectures import model_config
from pipelines.config import Config
from pipelines.evaluation.language.evaluation import TextEvaluation, report, write_text_evaluation
from pipelines.evaluation.language.plots import curves, surprise_by_line
from pipelines.loaders.text import side_number
from pipelines.shards.manifest import manifest_hash, read_manifest
from pipelines.tasks.language_evaluate import evaluate
from pipelines.tasks.language_training import fresh_network, text_tokenizer
from pipelines.tasks.translation_release import final_weights, made_from, note, weights_hashes
from pipelines.tracking.registry import register_bundle
from pipelines.tracking.run import TrackedRun
from pipelines.training import checkpoint

logger = logging.getLogger(__name__)


def release(config: Config) -> Path:
    """Make the run's bundle, measure it, record and register it; a bundle of the same weights is made once.

    Returns the bundle's directory.
    """
    bundle = config.run_dir / "bundle"
    with TrackedRun(config.tracking, config.run_dir, config.name) as tracked:
        if made_from(bundle) == weights_hashes(config):
            logger.info(f"the bundle {bundle} is of these weights already")
        else:
            make_bundle(config, bundle, tracked)
        evaluation = evaluate(config, bundle)
        record(config, bundle, evaluation, tracked)
        print(report(evaluation))
        if config.registry.register:
            version = register_bundle(config.tracking, config.registry, tracked, bundle)
            scores = evaluation.scores()
            note(config, bundle, tracked, version, manifest_hash=evaluation.manifest_hash, scores=scores)
    return bundle


def make_bundle(config: Config, bundle: Path, tracked: TrackedRun) -> None:
    """The final weights with everything that reading, writing and guessing text needs."""
    manifest, settings = read_manifest(config.shard_dir), config.loader
    tokenizer = text_tokenizer(config)
    weights, steps = final_weights(config)
    logger.info(
        f"the final model: {config.train.final_weights} of {len(steps)} checkpoints "
        f"(step {steps[0]:,} to {steps[-1]:,})"
    )
    network = fresh_network(config, tokenizer)
    fill(network, weights, str(config.run_dir))
    facts: dict[str, Any] = {
        "pair": manifest.languages[side_number(manifest, settings.side)],
        "normalisation": manifest.normalisation,
        "manifest_hash": manifest_hash(config.shard_dir),
        "sources": manifest.sources,
        "run": {"name": config.name, "id": tracked.run_id},
        "weights": {"from": config.train.final_weights, "steps": steps, "sha256": weights_hashes(config)},
        "masking": {"share": settings.mlm_probability, "whole_words": settings.whole_words},
    }
    save_text_bundle(
        bundle,
        network=network.eval(),
        config=model_config(config.model),
        tokenizer=tokenizer,
        facts=json.loads(json.dumps(facts)),
    )


def record(config: Config, bundle: Path, evaluation: TextEvaluation, tracked: TrackedRun) -> None:
    """Scores beside the bundle, in the bundle, and in the run with samples and curves."""
    scores = evaluation.scores()
    update_facts(bundle, {"scores": {evaluation.split: scores}})
    tracked.artifact(write_text_evaluation(evaluation, config.run_dir), "evaluation")
    newest = checkpoint.newest(config.run_dir)
    tracked.metrics(
        0 if newest is None else checkpoint.state(newest)["step"],
        {f"{evaluation.split}_{name}": value for name, value in scores.items()},
    )
    names = ["masked", "guessed", "truth"] if evaluation.kind == "masked" else ["prompt", "continuation", "truth"]
    tracked.table(names, [[one.prompt, one.text, one.truth] for one in evaluation.samples], "samples.json")
    tracked.text(f"{report(evaluation)}\n", "evaluation/report.txt")
    tracked.figure(curves(tracked.history(), config.name), "curves.png")
    tracked.figure(surprise_by_line(evaluation), f"evaluation/surprise-{evaluation.split}.png")
