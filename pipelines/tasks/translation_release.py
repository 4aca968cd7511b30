"""From the last checkpoints to a registered version: average, bundle, tune, evaluate, register."""

import json
import logging
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from model.bundles.language import load_text_bundle
from model.bundles.translation import bundle_kind, fill, load_bundle, save_bundle, update_facts
from model.errors import UserError
from model.networks.network import TranslationNetwork
from model.text.tokenizer import TokenizerPair, load_pair
from pipelines.config import Config
from pipelines.evaluate import evaluate
from pipelines.evaluation.translation import Evaluation, held_out, report, write_evaluation
from pipelines.evaluation.tuning import gate_int8, tune_length_penalty
from pipelines.shards.manifest import Manifest, manifest_hash, read_manifest
from pipelines.tasks import pretrained_embeddings
from pipelines.tasks.alignment_report import record_alignment
from pipelines.tasks.translation_training import fresh_network
from pipelines.tracking.lineage import log_curves, log_hypotheses, log_samples
from pipelines.tracking.registry import register_bundle
from pipelines.tracking.run import TrackedRun
from pipelines.training import checkpoint

logger = logging.getLogger(__name__)


def release(config: Config) -> Path:
    """Make the run's bundle, score it, record and register it; a bundle of the same weights is made once.

    Returns the bundle's directory.
    """
    bundle = config.run_dir / "bundle"
    with TrackedRun(config.tracking, config.run_dir, config.name) as tracked:
        if made_from(bundle) == weights_hashes(config):
            logger.info(f"the bundle {bundle} is of these weights already")
        else:
            make_bundle(config, bundle, tracked)
        evaluation = evaluate(replace(config, evaluate=replace(config.evaluate, bundle=None)), bundle)
        record(config, bundle, evaluation, tracked)
        print(report(evaluation))
        if config.registry.register:
            version = register_bundle(config.tracking, config.registry, tracked, bundle)
            bleu = evaluation.scores.lines["bleu"]
            note(config, bundle, tracked, version, manifest_hash=evaluation.manifest_hash, bleu=bleu)
    return bundle


def make_bundle(config: Config, bundle: Path, tracked: TrackedRun) -> None:
    """The final weights with everything that translating needs, decoding settled on the validation set."""
    manifest = read_manifest(config.shard_dir)
    tokenizers = load_pair(config.shard_dir, manifest.tokenizer)
    network, steps = final_network(config, tokenizers)
    logger.info(
        f"the final model: {config.train.final_weights} of {len(steps)} checkpoints "
        f"(step {steps[0]:,} to {steps[-1]:,})"
    )
    decode = config.decode
    facts: dict[str, Any] = {
        "pair": config.pair,
        "normalisation": manifest.normalisation,
        "manifest_hash": manifest_hash(config.shard_dir),
        "sources": manifest.sources,
        "run": {"name": config.name, "id": tracked.run_id},
        "weights": {"from": config.train.final_weights, "steps": steps, "sha256": weights_hashes(config)},
        **pretrained_embeddings.facts(config),
    }
    valid = validation(config, manifest)
    if decode.length_penalty == "auto" and valid is not None:
        choice = tune_length_penalty(
            network,
            tokenizers,
            *valid,
            decode,
            config.evaluate.length_penalties,
            config.languages[1],
            manifest.normalisation,
        )
        decode = replace(decode, length_penalty=choice.penalty)
        facts["length_penalty"] = {"chosen_on": "valid", **asdict(choice)}
        logger.info(f"length penalty {choice.penalty:g}, chosen on the validation set (BLEU {choice.bleu:.2f})")
    facts["decode"] = asdict(decode)
    save_bundle(
        bundle, network=network, config=network.config, tokenizers=tokenizers, facts=json.loads(json.dumps(facts))
    )
    if valid is not None:
        gate_int8(bundle, *valid, config.evaluate.int8_tolerance)


def final_network(config: Config, tokenizers: TokenizerPair) -> tuple[TranslationNetwork, list[int]]:
    """The network with its final weights, in evaluation mode, and the steps that they come from."""
    weights, steps = final_weights(config)
    network = fresh_network(config, tokenizers)
    fill(network, weights, str(config.run_dir))
    return network.eval(), steps


def final_weights(config: Config) -> tuple[dict[str, Tensor], list[int]]:
    """The weights that `train.final_weights` asks for, and the steps that they come from.

    Raises:
        UserError: the run has no checkpoint yet.
    """
    newest = checkpoint.newest(config.run_dir)
    if newest is None:
        raise UserError(f"{config.run_dir}: no checkpoint; the run has not got that far")
    if config.train.final_weights == "average":
        return checkpoint.average(config.run_dir, config.train.average_last)
    tensors, state = checkpoint.read(newest)
    return tensors["average" if config.train.final_weights == "ema" else "network"], [state["step"]]


def weights_hashes(config: Config) -> list[str]:
    """sha256 of the files that the final weights come from."""
    if config.train.final_weights == "average":
        return [checkpoint.sha256(path) for path in checkpoint.kept_weights(config.run_dir, config.train.average_last)]
    newest = checkpoint.newest(config.run_dir)
    name = "average.safetensors" if config.train.final_weights == "ema" else "network.safetensors"
    return [] if newest is None else [checkpoint.sha256(newest / name)]


def made_from(bundle: Path) -> list[str] | None:
    """What `weights_hashes` gave when the bundle was made."""
    if not (bundle / "config.json").is_file():
        return None
    made = load_bundle(bundle) if bundle_kind(bundle) == "translation" else load_text_bundle(bundle)
    return list(made.facts.get("weights", {}).get("sha256", []))


def validation(config: Config, manifest: Manifest) -> tuple[list[str], list[str]] | None:
    """Sources and references of the validation set, where the shards keep one."""
    return held_out(config.shard_dir, "valid", config.languages) if "valid" in manifest.texts else None


def record(config: Config, bundle: Path, evaluation: Evaluation, tracked: TrackedRun) -> None:
    """Scores beside the bundle, in the bundle, and in the run with samples and curves."""
    scored, texts = write_evaluation(evaluation, config.run_dir)
    update_facts(bundle, {"scores": {evaluation.split: evaluation.record()["scores"]}})
    tracked.artifact(scored, "evaluation")
    newest = checkpoint.newest(config.run_dir)
    step = 0 if newest is None else checkpoint.state(newest)["step"]
    if config.evaluate.alignment:
        record_alignment(config, bundle, tracked, step)
    tracked.metrics(
        step,
        {f"{evaluation.split}_{name}": value for name, value in evaluation.scores.metrics().items()},
    )
    samples = evaluation.samples
    log_samples(
        tracked,
        [sample.source for sample in samples],
        [sample.reference for sample in samples],
        [sample.hypothesis for sample in samples],
    )
    if evaluation.decode == load_bundle(bundle).decode:  # as the endpoint would answer: a promotion can take these
        log_hypotheses(tracked, bundle, evaluation.split, evaluation.sources, evaluation.hypotheses)
    else:
        tracked.artifact(texts, "evaluation")
    log_curves(tracked)


def note(config: Config, bundle: Path, tracked: TrackedRun, version: str | None, **measured: Any) -> None:
    """RUN/release.json, written whole: where everything is and what was `measured`, for whoever comes next."""
    content = {
        "run": config.name,
        "run_id": tracked.run_id,
        "bundle": str(bundle),
        "model": config.registry.name,
        "version": version,
        "shards": str(config.shard_dir),
        **measured,
    }
    path = config.run_dir / "release.json"
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(path)
