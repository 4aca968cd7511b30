"""`dragoman train model=rnnlm_lstm ...`: shards -> workers -> checkpoints -> bundle -> registered version.

`pipelines.train` comes here where the model is a language model, plain or masked. The same command goes on.
"""

import logging
from dataclasses import replace

from conf import compose
from model.errors import UserError
from model.networks.architectures import architecture
from model.networks.network import Network
from pipelines.config import Config
from pipelines.loaders.text import SplitText
from pipelines.shards.manifest import manifest_hash, read_manifest
from pipelines.tasks.language_release import release
from pipelines.tasks.language_training import carries, fresh_network, identity, make_loader, text_tokenizer, train_rank
from pipelines.tasks.launch import is_first, launch, running
from pipelines.tasks.precision import refuse_unrunnable
from pipelines.tasks.translation_training import check_shards, claim, remaining, warn_of_warmup, workers
from pipelines.tracking.server import resolved

logger = logging.getLogger(__name__)
OF_OTHERS = ("vectors", "embeddings", "decode")  # sections that language models do not read


def task(config: Config) -> int:
    """Train the run `name` to its end, then release what came out of it."""
    network = refuse_what_cannot_be(config)
    claim(config, identity(config, network))
    values = {key: value for key, value in compose.plain(config).items() if key not in OF_OTHERS}
    # workers may be started in another folder
    config = replace(config, tracking=resolved(config.tracking), paths=config.paths.absolute())
    with running(config) as received:
        if remaining(config):
            launch(train_rank, config, values, config.train.max_steps, "tokens", received)
        if is_first():
            release(config)
    return compose.OK


def refuse_what_cannot_be(config: Config) -> Network:
    """Everything that can be known to be wrong is said here, before any worker starts; the untrained network.

    Raises:
        UserError: a setting out of range, no shards, of other languages, a model or lanes that do not fit them,
            settings of translations.
    """
    config.train.check()
    manifest = read_manifest(config.shard_dir)
    if tuple(manifest.languages) != config.languages:
        raise UserError(f"pair={config.pair}: the shards in {config.shard_dir} are {'-'.join(manifest.languages)}")
    check_shards(config)
    if config.train.early_stopping.metric == "bleu" or config.train.bleu_every:
        key = "early_stopping.metric=bleu" if config.train.early_stopping.metric == "bleu" else "bleu_every"
        raise UserError(f"train.{key}: a language model translates nothing; early stopping may watch the loss")
    if config.evaluate.split not in manifest.texts:
        raise UserError(
            f"evaluate.split={config.evaluate.split}: {config.shard_dir} holds out "
            f"{', '.join(manifest.texts) or 'nothing'}"
        )
    if config.embeddings.references:
        raise UserError("embeddings.source: only translation models start from word vectors")
    tokenizer = text_tokenizer(config)
    network = fresh_network(config, tokenizer)
    refuse_unrunnable(config, network)
    warn_of_warmup(config)
    processes = workers(config)
    make_loader(config, network, tokenizer, 0, processes).close()
    train = SplitText(config.shard_dir, "train", config.loader.side)
    SplitText(config.shard_dir, "valid", config.loader.side)
    if config.train.loss.label_smoothing:
        logger.warning(
            f"train.loss.label_smoothing={config.train.loss.label_smoothing}: spreads probability that a language "
            f"model is measured by; train.loss.label_smoothing=0 gives the better perplexity"
        )
    reading = "streams with carried states" if carries(network) else "rows that each stand for themselves"
    logger.info(
        f"{config.name}: {config.model['name']} ({architecture(config.model['architecture']).family}), "
        f"{network.parameter_count():,} parameters; {train.tokens:,} tokens of {train.language} as {reading}; "
        f"{processes} workers, {config.loader.lanes} lanes of {config.loader.batch_tokens:,} tokens; "
        f"shards {manifest_hash(config.shard_dir)[:12]}"
    )
    return network
