"""The training of word vectors in one process: connects text, tables and tracking and runs the loop."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from dragoman.conf import compose
from dragoman.model.networks.architectures import model_config
from dragoman.model.ranges import check_ranges
from dragoman.model.shards.manifest import manifest_hash
from dragoman.model.word_vectors.batched import BatchedWord2Vec
from dragoman.model.word_vectors.glove import Glove
from dragoman.model.word_vectors.learner import Learner
from dragoman.model.word_vectors.vocabulary import Vocabulary
from dragoman.model.word_vectors.word2vec import Word2Vec, check
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.loaders.segments import Feed, ShardText, shard_vocabulary
from dragoman.pipelines.tasks.network import rank_record
from dragoman.pipelines.tasks.run import Run
from dragoman.pipelines.word_vectors.cooccurrence import CooccurrenceFeed, Counting, count_cooccurrences
from dragoman.pipelines.word_vectors.loop import Decay, Progress, train_tables


def train_rank(config: Config, ranks: Ranks, run: Run) -> Progress:
    """Trains on this rank until the run is finished; resumes from the run's newest checkpoint."""
    settings, model = config.vectors, model_config(config.model)
    vocabulary, _ = shard_vocabulary(config.shard_dir, settings.side, model.min_count)
    feed = make_feed(config, vocabulary)
    learner = make_learner(config, vocabulary, ranks)
    del vocabulary  # training does not need the words themselves
    with rank_record(run, ranks) as tracked:
        return train_tables(
            learner,
            feed,
            settings,
            Decay(model.lr, model.min_lr),
            run.folder,
            ranks,
            config.seed,
            settings.threads or torch.get_num_threads(),
            tracked.metrics if tracked else lambda step, values: None,
        )


def make_feed(config: Config, vocabulary: Vocabulary) -> Feed:
    """Returns the training split for the method: text, or for GloVe its co-occurrence counts."""
    if config.model["architecture"] != "glove":
        return make_text(config, vocabulary)
    path, counting = cooccurrences(config, vocabulary)
    return CooccurrenceFeed(path, counting.seed)


def make_text(config: Config, vocabulary: Vocabulary) -> ShardText:
    """Returns the training split in segments."""
    settings = config.vectors
    return ShardText(config.shard_dir, "train", vocabulary, settings.side, settings.segment_words, config.seed)


def count(config: Config, vocabulary: Vocabulary, report: Callable[[int, int], None]) -> None:
    """Runs GloVe's pass over the text, unless a run with the same text and window has done it.

    Calls `report` after each segment of the text. Other methods count nothing.
    """
    if config.model["architecture"] != "glove":
        return
    path, counting = cooccurrences(config, vocabulary)
    count_cooccurrences(path, make_text(config, vocabulary), counting, report)


def cooccurrences(config: Config, vocabulary: Vocabulary) -> tuple[Path, Counting]:
    """Returns the file and the inputs of GloVe's pass. The file may be deleted when no run needs it."""
    settings, model = config.vectors, model_config(config.model)
    source = f"{manifest_hash(config.shard_dir)} {settings.side or ''} {model.min_count} {settings.segment_words}"
    counting = Counting(source, len(vocabulary), model.window, model.symmetric, config.seed)
    name = compose.fingerprint(asdict(counting))[:16]
    return config.paths.local(config.paths.root) / "cooccurrences" / f"{name}.npy", counting


def make_learner(config: Config, vocabulary: Vocabulary, ranks: Ranks) -> Learner:
    """Returns the untrained tables of the configuration; every rank draws the same from the seed."""
    model = model_config(config.model)
    if model.architecture == "glove":
        return Glove(model, vocabulary.counts, config.seed)
    if ranks.device.type == "cuda":
        return BatchedWord2Vec(model, vocabulary.counts, config.seed, ranks.device)
    return Word2Vec(model, vocabulary.counts, config.seed)


def check_method(config: Config, words: int) -> None:
    """Refuses settings that the method lacks, before making any table."""
    model = model_config(config.model)
    if model.architecture == "word2vec":
        check(model, words)
    else:
        check_ranges("model", model)


def fingerprint(config: Config) -> dict[str, Any]:
    """Returns a run's identity: everything that the tables after a given step depend on.

    The number of ranks and threads is not part of it, because a run may resume with others.
    """
    settings = asdict(config.vectors)
    kept = ("epochs", "side", "segment_words", "scale_lr", "max_lr")
    return {
        "seed": config.seed,
        "shards": manifest_hash(config.shard_dir),
        "model": asdict(model_config(config.model)),
        "vectors": {key: settings[key] for key in kept},
    }
