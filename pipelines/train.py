"""`dragoman train`: shards -> workers -> checkpoints -> bundle -> registered version. The same command goes on."""

import logging
import sys
from dataclasses import replace

from conf import door
from model.architectures import architecture, model_config
from model.errors import UserError
from model.tokenizer import load_pair
from model.vectors.methods import is_vectors
from pipelines import embeddings, release
from pipelines.config import Config
from pipelines.launch import is_first, launch, running
from pipelines.loader import LaneLoader
from pipelines.shards.manifest import manifest_hash, read_manifest
from pipelines.shards.reader import ShardReader
from pipelines.tracking.server import resolved
from pipelines.training import claim, fresh_network, identity, remaining, train_rank, workers

logger = logging.getLogger(__name__)


def main(argv: list[str]) -> int:
    """The verb's entry point; its exit code."""
    return door.run(task, Config, argv, "train")


def task(config: Config) -> int:
    """Train the run `name` to its end, then release what came out of it."""
    if is_vectors(config.model):
        from pipelines.vectors.train import task as train_vectors

        return train_vectors(config)
    if architecture(model_config(config.model).architecture).family != "translation":
        from pipelines.language.train import task as train_language

        return train_language(config)
    refuse_what_cannot_be(config)
    claim(config, identity(config))
    with running(config) as received:
        embeddings.keep(config)
        values = door.plain(config)  # as it was written: with no path of this machine
        # workers may be started in another folder
        config = replace(config, tracking=resolved(config.tracking), paths=config.paths.absolute())
        if remaining(config):
            launch(train_rank, config, values, config.train.max_steps, "target tokens", received)
        if is_first():
            release.release(config)
    return door.OK


def refuse_what_cannot_be(config: Config) -> None:
    """Everything that can be known to be wrong is said here, before any worker starts.

    Raises:
        UserError: no shards, of other languages, a model or lanes that do not fit them, averages that cannot be.
    """
    manifest = read_manifest(config.shard_dir)
    if manifest.kind != "parallel":
        raise UserError(
            f"model={config.model.get('name')}: a translation model needs pairs of sentences, and the shards in "
            f"{config.shard_dir} are {manifest.kind} ({'-'.join(manifest.languages)}). Word vectors and language "
            f"models can be trained on them: model=skipgram, model=rnnlm_lstm"
        )
    if tuple(manifest.languages) != config.languages:
        raise UserError(f"pair={config.pair}: the shards in {config.shard_dir} are {'-'.join(manifest.languages)}")
    if config.train.final == "ema" and not config.train.optimizer.ema_decay:
        raise UserError("train.final=ema: needs train.optimizer.ema_decay above 0, such as 0.999")
    processes = workers(config)
    LaneLoader(ShardReader(config.shard_dir, "train"), config.loader, config.seed, 0, processes).close()
    ShardReader(config.shard_dir, "valid")
    network = fresh_network(config, load_pair(config.shard_dir, manifest.tokenizer))
    train = manifest.split("train")
    logger.info(
        f"{config.name}: {config.model['name']}, {network.parameter_count():,} parameters; {train.records:,} pairs, "
        f"{train.target_tokens:,} target tokens; {processes} workers, {config.loader.lanes} lanes of "
        f"{config.loader.batch_tokens:,} tokens; shards {manifest_hash(config.shard_dir)[:12]}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
