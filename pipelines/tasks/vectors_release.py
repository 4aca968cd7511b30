"""From the trained tables to a registered version: bundle, evaluate, draw, register."""

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from conf import compose
from model.bundles.directory import update_facts
from model.bundles.vectors import VectorsBundle, load_vectors, save_vectors
from model.errors import UserError
from model.text.tokenizer import TokenizerPair
from model.word_vectors.methods import method, method_config
from model.word_vectors.vocabulary import Vocabulary
from pipelines.cluster.ranks import Ranks
from pipelines.config import Config
from pipelines.evaluation.word_vectors.evaluation import evaluate_embeddings, read_sets, report
from pipelines.evaluation.word_vectors.plots import all_pictures
from pipelines.loaders.segments import language, shard_vocabulary
from pipelines.shards.manifest import manifest_hash, read_manifest
from pipelines.tasks.translation_release import note
from pipelines.tasks.vectors_evaluate import PICTURES, asked_records, keep
from pipelines.tasks.vectors_training import identity, make_learner, make_text
from pipelines.tracking.registry import register_bundle
from pipelines.tracking.run import TrackedRun
from pipelines.training import checkpoint
from pipelines.word_vectors.loop import TABLES, check_tables

logger = logging.getLogger(__name__)


def release(config: Config) -> Path:
    """Make the run's bundle, measure it, record and register it; a bundle of the same tables is made once.

    Returns the bundle's directory.
    """
    bundle = config.run_dir / "bundle"
    with TrackedRun(config.tracking, config.run_dir, config.name) as tracked:
        origin = made_of(config)
        if made_from(bundle) == origin:
            logger.info(f"the bundle {bundle} is of these vectors already")
        else:
            make_bundle(config, bundle, origin, tracked)
        scores = record(config, load_vectors(bundle), tracked)
        if config.registry.register:
            version = register_bundle(config.tracking, config.registry, tracked, bundle)
            shards = manifest_hash(config.shard_dir)
            note(config, bundle, tracked, version, manifest_hash=shards, scores=dict(scores))
    return bundle


def make_bundle(config: Config, bundle: Path, origin: Mapping[str, Any], tracked: TrackedRun) -> None:
    """The words and their vectors with all that says what they come from."""
    settings, model = config.vectors, method_config(config.model)
    manifest = read_manifest(config.shard_dir)
    vocabulary, tokenizer = shard_vocabulary(config.shard_dir, "train", settings.side, model.min_count)
    facts: dict[str, Any] = {
        "pair": language(config.shard_dir, settings.side),
        "normalisation": manifest.normalisation,
        "manifest_hash": manifest_hash(config.shard_dir),
        "sources": manifest.sources,
        "run": {"name": config.name, "id": tracked.run_id},
        "tokens": vocabulary.tokens,
        "made_from": origin,
    }
    tables = counted_tables if method(model.architecture).kind == "counted" else trained_tables
    save_vectors(
        bundle,
        words=vocabulary.words,
        counts=vocabulary.counts,
        tables=tables(config, vocabulary),
        config=model,
        tokenizer=TokenizerPair(tokenizer, tokenizer),
        facts=json.loads(json.dumps(facts)),
        exports=settings.export,
    )
    logger.info(f"{len(vocabulary):,} words of {facts['pair']} in {bundle}")


def trained_tables(config: Config, vocabulary: Vocabulary) -> Mapping[str, Any]:
    """The vectors of the last checkpoint, whatever backend made it.

    Its tables take the place of fresh ones as they lie in the file, so that memory never holds more than one of both.
    """
    groups, _ = checkpoint.read(newest(config))
    on_cpu = replace(config, vectors=replace(config.vectors, backend="numba"))
    learner = make_learner(on_cpu, vocabulary, Ranks(0, 1, torch.device("cpu")))
    check_tables(learner, groups[TABLES], str(newest(config)))
    learner.tables |= {name: table.numpy() for name, table in groups[TABLES].items()}
    return learner.vectors()


def counted_tables(config: Config, vocabulary: Vocabulary) -> Mapping[str, Any]:
    """What one pass over the text gives."""
    from model.word_vectors.counting import count_vectors

    text = make_text(config, vocabulary)
    texts = (text.segment(0, index) for index in range(text.segments))
    return count_vectors(method_config(config.model), texts, len(vocabulary))


def record(config: Config, bundle: VectorsBundle, tracked: TrackedRun) -> dict[str, float]:
    """Measure and draw: into the run and its directory, the scores into the bundle too."""
    settings, embeddings = config.vectors.evaluate, bundle.embeddings
    sets = read_sets(settings)
    evaluation = evaluate_embeddings(embeddings, settings, sets, asked_records(config))
    scores = evaluation.scores()
    update_facts(bundle.directory, {"scores": scores})
    tracked.metrics(int(bundle.facts["made_from"].get("step", 0)), scores)
    history = tracked.history()
    pictures = all_pictures(embeddings, evaluation, sets, history, settings.words) if settings.pictures else {}
    tracked.artifact(keep(evaluation, pictures, config.run_dir), "evaluation")
    if pictures:
        tracked.artifact(config.run_dir / PICTURES, PICTURES)
    text = report(evaluation)
    tracked.text(f"{text}\n", "evaluation/report.txt")
    print(text)
    return scores


def made_of(config: Config) -> dict[str, Any]:
    """What a bundle of this run depends on, as plain values: trained tables, or for counted ones the settings."""
    exports = sorted(config.vectors.export)
    if method(config.model["architecture"]).kind == "counted":
        return {"settings": compose.fingerprint(identity(config)), "exports": exports}
    manifest = json.loads((newest(config) / "manifest.json").read_text(encoding="utf-8"))
    state = checkpoint.state(newest(config))
    tables = {name: digest for name, digest in manifest["files"].items() if name.endswith(".safetensors")}
    return {"step": state["step"], "tables": tables, "losses": state["losses"], "exports": exports}


def made_from(bundle: Path) -> dict[str, Any] | None:
    """What `made_of` gave when the bundle was made."""
    if not (bundle / "config.json").is_file():
        return None
    found: dict[str, Any] | None = load_vectors(bundle).facts.get("made_from")
    return found


def newest(config: Config) -> Path:
    """The last checkpoint.

    Raises:
        UserError: the run has none.
    """
    found = checkpoint.newest(config.run_dir)
    if found is None:
        raise UserError(f"{config.run_dir}: no checkpoint; the run has not got that far")
    return found
