"""Word vectors: the task's row, what must be known before their training starts, and how two are compared."""

import logging
import tempfile
from collections.abc import Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.model.bundles.vectors import load_vectors
from dragoman.model.errors import UserError, unknown
from dragoman.model.networks.architectures import architecture, model_config
from dragoman.model.plural import plural
from dragoman.model.runs import checkpoints
from dragoman.model.shards.manifest import manifest_hash, read_manifest
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.word_vectors.comparison import METRICS, compare_embeddings
from dragoman.pipelines.evaluation.word_vectors.evaluation import halves, read_sets
from dragoman.pipelines.loaders.segments import shard_vocabulary, side_number
from dragoman.pipelines.settings import ClusterConfig
from dragoman.pipelines.tasks.base import Plan, Task, Training
from dragoman.pipelines.tasks.identity import check_shards
from dragoman.pipelines.tasks.run import Run
from dragoman.pipelines.tasks.split_comparison import compared
from dragoman.pipelines.tasks.vectors_release import evaluate, origin, record, save_bundle
from dragoman.pipelines.tasks.vectors_training import check_method, count, fingerprint, make_feed, train_rank
from dragoman.pipelines.tasks.workers import is_first, worker_count
from dragoman.pipelines.tracking.promotion import Comparison
from dragoman.pipelines.tracking.registry import Registry, Version
from dragoman.pipelines.word_vectors.loop import Progress, replay_segments

SEED, WIDTH = 12345, 64  # of random vectors
logger = logging.getLogger(__name__)


def judge(config: Config, registry: Registry, candidate: Version, champion: Version | None) -> Comparison:
    """Compares the candidate with the champion on half of the sets of `vectors.evaluate`, over their common words.

    The other half is their test set: its score is reported and decides nothing.
    """
    settings, metric, trials = config.vectors.evaluate, config.promote.metric, config.promote.trials
    if metric not in METRICS:
        raise unknown("promote.metric", metric, METRICS)
    if settings.root is None or not (settings.similarity or settings.analogies):
        raise UserError(
            "vectors.evaluate.root: word vectors are promoted by similarity sets and analogies; name their folder "
            "(vectors=english lists the English files), or use promote.force=true with a reason"
        )
    selection, test = halves(read_sets(settings))
    ours = fetch(registry, candidate)
    versions = random_vectors(ours) if champion is None else fetch(registry, champion), ours
    paired = compare_embeddings(*versions, selection, settings.restrict, metric, trials)
    try:
        other = compare_embeddings(*versions, test, settings.restrict, metric, trials=1)
        reported = f"{other.metric} {other.candidate:.2f} against {other.baseline:.2f}"
    except UserError:  # few pairs, none of them in this half
        reported = "nothing that both know"
    return compared(
        paired, of="the half that is the gate", floor="random vectors" if champion is None else "", reported=reported
    )


def random_vectors(like: Embeddings) -> Embeddings:
    """Returns vectors that know nothing, of the same words: the same at each call."""
    drawn = np.random.default_rng(SEED).standard_normal((len(like.words), WIDTH), np.float32)
    return Embeddings(like.words, like.counts, drawn, language=like.language)


def fetch(registry: Registry, version: Version) -> Embeddings:
    """Returns the vectors of a version; a download is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        return load_vectors(registry.bundle(version, Path(folder))).embeddings


def is_learned(config: Config) -> bool:
    """Returns True if the model has tables that workers train; counted models have none."""
    return not architecture(config.model["architecture"]).counted


def with_device(config: Config) -> ClusterConfig:
    """Returns the cluster's section: word2vec takes GPUs where they are asked for, other methods none."""
    on_gpus = config.cluster.device == "cuda" and config.model["architecture"] == "word2vec"
    return config.cluster if on_gpus else replace(config.cluster, device="cpu")


def report_counting(done: int, segments: int) -> None:
    """Reports the progress of the pass over the text, ten times in all."""
    if done * 10 // segments > (done - 1) * 10 // segments:
        logger.info(f"co-occurrences: {done * 100 // segments}% of the text counted")


class VectorsTraining(Training):
    """The training of word vectors, by rounds of workers or by counting."""

    unread = ("train", "loader", "decode", "embeddings")
    held_out = False

    def validate(self, config: Config) -> None:
        """Reports all mistakes that can be known before any worker starts."""
        settings, model = config.vectors, model_config(config.model)
        settings.check()
        if rank := config.train.lora.rank:
            raise UserError(f"train.lora.rank={rank}: word vectors have no products to change; leave it out")
        manifest = read_manifest(config.shard_dir)
        check_shards(config)
        side_number(manifest, settings.side)
        if (
            manifest.kind == "parallel"
            and config.registry.register
            and config.registry.name == f"{config.corpus.name}-{config.pair}"
        ):
            raise UserError(
                f"registry.name={config.registry.name}: is the name of this corpus' translation model; word vectors "
                f"need one of their own. Choices: registry=vectors, registry.name=ANOTHER, registry.register=false"
            )
        vocabulary, _ = shard_vocabulary(config.shard_dir, settings.side, model.min_count)
        check_method(config, len(vocabulary))
        logger.info(
            f"{config.name}: {config.model['name']}, {len(vocabulary):,} words of {vocabulary.tokens:,} in the text; "
            f"{plural(worker_count(config), 'worker') if is_learned(config) else 'counted here'}; "
            f"shards {manifest_hash(config.shard_dir)[:12]}"
        )

    def validate_settings(self, config: Config) -> None:
        """Checks the settings alone, without shards."""
        model_config(config.model)
        config.vectors.check()

    def fingerprint(self, config: Config) -> dict[str, Any]:
        return fingerprint(config)

    def needs_training(self, config: Config) -> bool:
        """Returns True if the training is not finished; counted models are counted again, in seconds."""
        newest = checkpoints.newest(config.run_dir)
        if newest is None:
            return True
        state = checkpoints.state(newest)
        over = int(state["epoch"]) >= config.vectors.epochs
        then = "is trained to its end" if over else f"goes on in epoch {state['epoch'] + 1} of {config.vectors.epochs}"
        logger.info(f"{config.name}: found the checkpoint of step {state['step']:,}; the run {then}")
        return not over

    def plan(self, config: Config) -> Plan | None:
        """Counts what must be counted first, on one rank of a machine; models that are only counted need no ranks."""
        if not is_learned(config):
            return None
        config = replace(config, cluster=with_device(config))
        if not is_first():  # under torchrun the first rank counts and reports the length
            return Plan(0, "", config.cluster)
        settings, model = config.vectors, model_config(config.model)
        vocabulary, _ = shard_vocabulary(config.shard_dir, settings.side, model.min_count)
        count(config, vocabulary, report_counting)
        feed, processes = make_feed(config, vocabulary), worker_count(config)
        if processes > feed.segments:
            raise UserError(
                f"cluster.workers={processes}: an epoch has only {feed.segments} segments, one a worker and round; "
                f"take fewer workers, or shorter segments than vectors.segment_words={config.vectors.segment_words}"
            )
        return Plan(config.vectors.epochs * feed.segments, feed.unit, config.cluster)

    def train_rank(self, config: Config, ranks: Ranks, run: Run) -> Progress:
        return train_rank(config, ranks, run)

    def weights_origin(self, config: Config) -> Any:
        return origin(config)

    def stored_origin(self, facts: Mapping[str, Any]) -> Any:
        return facts.get("made_from")

    def replay(self, config: Config) -> Generator[tuple[int, int]] | None:
        """Yields (digest, size) of each step's segment; missing co-occurrences are counted again."""
        if not is_learned(config):
            return None
        vocabulary, _ = shard_vocabulary(config.shard_dir, config.vectors.side, model_config(config.model).min_count)
        count(config, vocabulary, report_counting)
        return replay_segments(make_feed(config, vocabulary))


VECTORS = Task(
    kind="vectors", training=VectorsTraining(), save_bundle=save_bundle, evaluate=evaluate, judge=judge, record=record
)
