"""Releases word vectors: their bundle, their scores and pictures, their rivals."""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch

from dragoman.conf import compose
from dragoman.model.bundles.vectors import VectorsBundle, load_vectors, save_vectors
from dragoman.model.files import atomic_path
from dragoman.model.networks.architectures import architecture, model_config
from dragoman.model.runs import checkpoints
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.model.word_vectors.counting import count_vectors
from dragoman.model.word_vectors.vocabulary import Vocabulary
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.base import Evaluation
from dragoman.pipelines.evaluation.significance import Significance
from dragoman.pipelines.evaluation.word_vectors.comparison import compare_embeddings
from dragoman.pipelines.evaluation.word_vectors.evaluation import (
    Sets,
    VectorsEvaluation,
    evaluate_embeddings,
    read_sets,
    report,
)
from dragoman.pipelines.evaluation.word_vectors.plots import all_pictures, losses
from dragoman.pipelines.loaders.segments import language, shard_vocabulary
from dragoman.pipelines.tasks.identity import origin_facts
from dragoman.pipelines.tasks.vectors_training import fingerprint, make_learner, make_text
from dragoman.pipelines.tracking.plots import Figure
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.training import checkpoint
from dragoman.pipelines.word_vectors.loop import TABLES, check_tables
from dragoman.pipelines.word_vectors.settings import EvaluateVectors

logger = logging.getLogger(__name__)

PICTURES = "pictures"


@dataclass(frozen=True)
class VectorsResults(Evaluation):
    """An evaluation with the data of its pictures."""

    bundle: VectorsBundle
    evaluation: VectorsEvaluation
    sets: Sets
    settings: EvaluateVectors
    pictures: dict[str, Figure]
    split = "vectors"

    def report(self) -> str:
        return report(self.evaluation)

    def metrics(self) -> dict[str, float]:
        return self.evaluation.scores()

    def record(self) -> dict[str, Any]:
        return {**self.evaluation.record(), "scores": self.metrics(), "settings": asdict(self.settings)}

    def compare(self, baseline: Self, trials: int) -> Significance:
        ours, theirs = self.bundle.embeddings, baseline.bundle.embeddings
        return compare_embeddings(theirs, ours, self.sets, self.settings.restrict, trials=trials)

    def write(self, folder: Path) -> list[Path]:
        """Writes `evaluation.vectors.json` and `pictures/NAME.png`; returns the record's path."""
        draw(self.pictures, folder)
        return super().write(folder)


def save_bundle(config: Config, directory: Path, tracked: TrackedRun) -> VectorsBundle:
    """Saves the words and their vectors with their origin."""
    settings, model = config.vectors, model_config(config.model)
    vocabulary, tokenizer = shard_vocabulary(config.shard_dir, settings.side, model.min_count)
    facts: dict[str, Any] = {
        "pair": language(config.shard_dir, settings.side),
        **origin_facts(config, tracked),
        "tokens": vocabulary.tokens,
        "made_from": origin(config),
    }
    tables = counted_tables if architecture(model.architecture).counted else trained_tables
    save_vectors(
        directory,
        words=vocabulary.words,
        counts=vocabulary.counts,
        tables=tables(config, vocabulary),
        config=model,
        tokenizer=TokenizerPair(tokenizer, tokenizer),
        facts=json.loads(json.dumps(facts)),
    )
    logger.info(f"{len(vocabulary):,} words of {facts['pair']} in {directory}")
    return load_vectors(directory)


def trained_tables(config: Config, vocabulary: Vocabulary) -> Mapping[str, Any]:
    """Returns the vectors of the last checkpoint, from any backend.

    Its tables replace fresh ones as they are in the file, so memory never holds more than one of both.
    """
    newest = checkpoints.last(config.run_dir)
    groups, _ = checkpoint.read(newest)
    learner = make_learner(config, vocabulary, Ranks(0, 1, torch.device("cpu")))
    check_tables(learner, groups[TABLES], str(newest))
    learner.tables |= {name: table.numpy() for name, table in groups[TABLES].items()}
    return learner.vectors()


def counted_tables(config: Config, vocabulary: Vocabulary) -> Mapping[str, Any]:
    """Returns the result of one pass over the text."""
    text = make_text(config, vocabulary)
    texts = (text.segment(0, index) for index in range(text.segments))
    return count_vectors(model_config(config.model), texts, len(vocabulary))


def origin(config: Config) -> dict[str, Any]:
    """Returns what a bundle of this run depends on, as plain values: trained tables, or settings of counted ones."""
    if architecture(config.model["architecture"]).counted:
        return {"settings": compose.fingerprint(fingerprint(config))}
    newest = checkpoints.last(config.run_dir)
    state = checkpoints.state(newest)
    tables = {
        name: digest for name, digest in checkpoints.manifest(newest)["files"].items() if name.endswith(".safetensors")
    }
    return {"step": state["step"], "tables": tables, "losses": state["losses"]}


def evaluate(config: Config, bundle: VectorsBundle) -> VectorsResults:
    """Runs `evaluate_embeddings` by the section `vectors.evaluate`, with the pictures that it asks for."""
    settings, embeddings = config.vectors.evaluate, bundle.embeddings
    if settings.root is not None:
        settings = replace(settings, root=str(Path(settings.root).absolute()))
    sets = read_sets(settings)
    evaluation = evaluate_embeddings(embeddings, settings, sets)
    pictures = all_pictures(embeddings, sets, settings.words) if settings.pictures else {}
    return VectorsResults(bundle, evaluation, sets, settings, pictures)


def draw(pictures: Mapping[str, Figure], folder: Path) -> None:
    """Writes `pictures/NAME.png` below `folder`."""
    (folder / PICTURES).mkdir(exist_ok=True)
    for name, figure in pictures.items():
        with atomic_path(folder / PICTURES / f"{name}.png", durable=False) as part:
            figure.savefig(part)


def record(config: Config, _bundle: VectorsBundle, results: VectorsResults, tracked: TrackedRun) -> None:
    """Records the pictures, with that of the run's loss."""
    if results.pictures:
        loss = losses(tracked.history())
        if loss is not None:
            draw({"loss": loss}, config.run_dir)
        tracked.artifact(config.run_dir / PICTURES, PICTURES)
