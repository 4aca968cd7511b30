"""`dragoman train model=skipgram ...`: shards -> rounds on the workers -> bundle -> registered version.

`pipelines.train` comes here where the model is one of word vectors. The same command goes on where it was.
"""

import logging
import os
from dataclasses import replace

from conf import compose
from model.errors import UserError
from model.word_vectors.methods import method, method_config
from model.word_vectors.vocabulary import Vocabulary
from pipelines.config import Config
from pipelines.loaders.segments import shard_vocabulary, side_number
from pipelines.settings import ClusterConfig
from pipelines.shards.manifest import manifest_hash, read_manifest
from pipelines.tasks.launch import begin, is_first, launch, running
from pipelines.tasks.translation_training import check_shards, claim
from pipelines.tasks.vectors_release import release
from pipelines.tasks.vectors_training import check_method, count, identity, make_feed, train_rank
from pipelines.tracking.server import resolved
from pipelines.training import checkpoint

logger = logging.getLogger(__name__)
OF_NETWORKS = ("train", "loader", "decode", "embeddings")  # sections that word vectors do not read


def task(config: Config) -> int:
    """Train the run `name` to its end, then release what came out of it."""
    vocabulary = refuse_what_cannot_be(config)
    claim(config, identity(config))
    values = {key: value for key, value in compose.plain(config).items() if key not in OF_NETWORKS}
    # workers may be started in another folder
    config = replace(config, tracking=resolved(config.tracking), paths=config.paths.absolute())
    with running(config) as received:
        if not learned(config):
            begin(config, values)
        elif remaining(config):
            config = replace(config, cluster=with_device(config))
            steps, unit = prepare(config, vocabulary) if is_first() else (0, "")
            launch(train_rank, config, values, steps, unit, received)
        if is_first():
            release(config)
    return compose.OK


def refuse_what_cannot_be(config: Config) -> Vocabulary:
    """Everything that can be known to be wrong is said here, before any worker starts; the words to train.

    Raises:
        UserError: no shards, of other languages, too few words, settings that cannot be.
    """
    settings, model = config.vectors, method_config(config.model)
    settings.check()
    manifest = read_manifest(config.shard_dir)
    if tuple(manifest.languages) != config.languages:
        raise UserError(f"pair={config.pair}: the shards in {config.shard_dir} are {'-'.join(manifest.languages)}")
    check_shards(config)
    side_number(manifest, settings.side)
    if (
        manifest.kind == "parallel"
        and config.registry.register
        and config.registry.name == f"{config.corpus.name}-{config.pair}"
    ):
        raise UserError(
            f"registry.name={config.registry.name}: is the name of this corpus' translation model; word vectors need "
            f"one of their own. Choices: registry=vectors, registry.name=ANOTHER, registry.register=false"
        )
    vocabulary, _ = shard_vocabulary(config.shard_dir, "train", settings.side, model.min_count)
    check_method(config, len(vocabulary))
    logger.info(
        f"{config.name}: {config.model['name']}, {len(vocabulary):,} words of {vocabulary.tokens:,} in the text; "
        f"{f'{workers(config)} workers' if learned(config) else 'counted here'}; "
        f"shards {manifest_hash(config.shard_dir)[:12]}"
    )
    return vocabulary


def prepare(config: Config, vocabulary: Vocabulary) -> tuple[int, str]:
    """Count what has to be counted first; the run's steps and the unit of what it trains on.

    Raises:
        UserError: more workers than segments, so that some would never train.
    """
    count(config, vocabulary, said)
    feed, processes = make_feed(config, vocabulary), workers(config)
    if processes > feed.segments:
        raise UserError(
            f"cluster.workers={processes}: an epoch has only {feed.segments} segments, one a worker and round; take "
            f"fewer workers, or shorter segments than vectors.segment_words={config.vectors.segment_words}"
        )
    return config.vectors.epochs * feed.segments, feed.unit


def learned(config: Config) -> bool:
    """Whether the model has tables that workers train; one that is counted needs none of them."""
    return method(config.model["architecture"]).kind == "learned"


def workers(config: Config) -> int:
    """How many processes will train."""
    return config.cluster.workers if config.cluster.backend == "ray" else int(os.environ.get("WORLD_SIZE", "1"))


def with_device(config: Config) -> ClusterConfig:
    """The cluster's section; methods that run on a CPU alone ask for no GPU and talk to each other over gloo."""
    return config.cluster if config.vectors.backend in ("torch", "triton") else replace(config.cluster, device="cpu")


def remaining(config: Config) -> bool:
    """Whether there is anything left to train."""
    newest = checkpoint.newest(config.run_dir)
    if newest is None:
        return True
    state = checkpoint.state(newest)
    over = int(state["epoch"]) >= config.vectors.epochs
    said = "is trained to its end" if over else f"goes on in epoch {state['epoch'] + 1} of {config.vectors.epochs}"
    logger.info(f"{config.name}: found the checkpoint of step {state['step']:,}; the run {said}")
    return not over


def said(done: int, segments: int) -> None:
    """Say how far the pass over the text is, ten times in all."""
    if done * 10 // segments > (done - 1) * 10 // segments:
        logger.info(f"co-occurrences: {done * 100 // segments}% of the text counted")
