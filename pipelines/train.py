"""`dragoman train`: shards -> workers -> checkpoints -> bundle -> registered version. The same command goes on."""

import importlib
import logging
import shutil
import sys
from dataclasses import replace

from conf import compose
from model.errors import UserError
from model.networks.architectures import architecture, model_config
from model.text.tokenizer import load_pair
from model.word_vectors.methods import is_vectors, method_config
from pipelines.config import Config
from pipelines.corpus.report import WITHOUT, missing
from pipelines.corpus.sharded import as_sharded
from pipelines.loaders.pairs import LaneLoader
from pipelines.loaders.prefetch import check_lanes
from pipelines.shards.manifest import manifest_hash, read_manifest
from pipelines.shards.reader import ShardReader
from pipelines.tasks import pretrained_embeddings, translation_release
from pipelines.tasks.launch import is_first, launch, running
from pipelines.tasks.precision import refuse_unrunnable
from pipelines.tasks.translation_training import (
    check_shards,
    claim,
    fresh_network,
    identity,
    remaining,
    train_rank,
    warn_of_warmup,
    with_lanes,
    workers,
)
from pipelines.tracking.server import resolved

logger = logging.getLogger(__name__)


def main(argv: list[str]) -> int:
    """The verb's entry point; its exit code."""
    return compose.run(task, Config, argv, "train", check, as_sharded)


def task(config: Config) -> int:
    """Train the run `name` to its end, then release what came out of it; what is refused leaves no folder of a run."""
    new = not config.run_dir.exists()
    try:
        return _train(config)
    except UserError:
        if new and not (config.run_dir / "spool").exists():  # it has not begun
            shutil.rmtree(config.run_dir, ignore_errors=True)
        raise


def _train(config: Config) -> int:
    if is_vectors(config.model):
        from pipelines.tasks.vectors_train import task as train_vectors

        return train_vectors(config)
    config = with_lanes(config, [config.run_dir])
    if architecture(model_config(config.model).architecture).family != "translation":
        from pipelines.tasks.language_train import task as train_language

        return train_language(config)
    refuse_what_cannot_be(config)
    claim(config, identity(config))
    with running(config) as received:
        pretrained_embeddings.keep(config)
        values = compose.plain(config)  # as it was written: with no path of this machine
        # workers may be started in another folder
        config = replace(config, tracking=resolved(config.tracking), paths=config.paths.absolute())
        if remaining(config):
            launch(train_rank, config, values, config.train.max_steps, "target tokens", received)
        if is_first():
            translation_release.release(config)
    return compose.OK


def check(config: Config) -> None:
    """Refuse what a start would refuse at once, as far as it can be known where the shards may be out of sight.

    Raises:
        UserError: what `refuse_what_cannot_be` refuses; without shards, a model or lanes that cannot be.
    """
    vectors = is_vectors(config.model)
    family = "vectors" if vectors else architecture(model_config(config.model).architecture).family
    config = config if vectors else with_lanes(config, [config.run_dir])
    if config.paths.visible:
        where = {"vectors": "pipelines.tasks.vectors_train", "translation": __name__}.get(
            family, "pipelines.tasks.language_train"
        )
        importlib.import_module(where).refuse_what_cannot_be(config)
    elif vectors:
        method_config(config.model)
        config.vectors.check()
    else:
        check_lanes(config.loader.lanes, workers(config))


def refuse_what_cannot_be(config: Config) -> None:
    """Everything that can be known to be wrong is said here, before any worker starts.

    Raises:
        UserError: a setting out of range, no shards, of other languages, a model or lanes that do not fit them.
    """
    config.train.check()
    manifest = read_manifest(config.shard_dir)
    if manifest.kind != "parallel":
        raise UserError(
            f"model={config.model.get('name')}: a translation model needs pairs of sentences, and the shards in "
            f"{config.shard_dir} are {manifest.kind} ({'-'.join(manifest.languages)}). Word vectors and language "
            f"models can be trained on them: model=skipgram, model=rnnlm_lstm"
        )
    if tuple(manifest.languages) != config.languages:
        raise UserError(f"pair={config.pair}: the shards in {config.shard_dir} are {'-'.join(manifest.languages)}")
    check_shards(config)
    for split in ("valid", config.evaluate.split):
        if split in WITHOUT and split not in manifest.splits:
            raise UserError(f"{config.shard_dir}: {missing(manifest, split)} (dragoman shard)")
    processes = workers(config)
    LaneLoader(ShardReader(config.shard_dir, "train"), config.loader, config.seed, 0, processes).close()
    ShardReader(config.shard_dir, "valid")
    network = fresh_network(config, load_pair(config.shard_dir, manifest.tokenizer))
    refuse_unrunnable(config, network)
    warn_of_warmup(config)
    train = manifest.split("train")
    logger.info(
        f"{config.name}: {config.model['name']}, {network.parameter_count():,} parameters; {train.records:,} pairs, "
        f"{train.target_tokens:,} target tokens; {processes} workers, {config.loader.lanes} lanes of "
        f"{config.loader.batch_tokens:,} tokens; shards {manifest_hash(config.shard_dir)[:12]}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
