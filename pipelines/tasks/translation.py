"""Translation models, plain sentence pairs: the task's row, and the work of one training process."""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch

from dragoman.model.errors import UserError
from dragoman.model.inference.bleu import tokeniser
from dragoman.model.inference.translator import network_translator
from dragoman.model.layers.positions import Positions
from dragoman.model.networks.architectures import build_network, model_config
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.plural import plural
from dragoman.model.settings import DecodeConfig
from dragoman.model.shards.manifest import manifest_hash, read_manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.model.shards.stream import open_reader
from dragoman.model.text.batch import TranslationBatch
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.model.text.tokenizers import load_pair
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.pack.report import WITHOUT, missing
from dragoman.pipelines.corpus.sharded import shard_command
from dragoman.pipelines.evaluation.held_out import held_out as held_out_texts
from dragoman.pipelines.evaluation.metrics import quick_bleu
from dragoman.pipelines.loaders.denoising import DenoisingLoader, held_out_noised
from dragoman.pipelines.loaders.pairs import LaneLoader, check_lengths, held_out_batches
from dragoman.pipelines.tasks import pretrained_embeddings, teachers, warm_start
from dragoman.pipelines.tasks.base import Plan
from dragoman.pipelines.tasks.identity import check_shards, network_fingerprint
from dragoman.pipelines.tasks.network import network_task, refuse_bleu, train_network
from dragoman.pipelines.tasks.parts import counted
from dragoman.pipelines.tasks.precision import refuse_unrunnable
from dragoman.pipelines.tasks.run import Run
from dragoman.pipelines.tasks.schedule import warn_of_warmup
from dragoman.pipelines.tasks.translation_release import evaluate, judge, measure_more, record, save_bundle
from dragoman.pipelines.tasks.workers import worker_count
from dragoman.pipelines.training.loop import Progress
from dragoman.pipelines.training.verification import replay_lanes

logger = logging.getLogger(__name__)

VALIDATION_SENTENCES = 500  # decoded for BLEU during a training; the final evaluation uses all


def train_rank(config: Config, ranks: Ranks, run: Run) -> Progress:
    """Trains on this rank until the run is over, from the run's newest checkpoint."""
    reader = open_reader(config.shard_dir, "train", config.loader.reader)
    tokenizers = load_pair(config.shard_dir, reader.manifest.tokenizer)
    network = fresh_network(config, tokenizers)
    pairs = make_loader(reader, config, ranks.rank, ranks.world)
    loader = teachers.taught(pairs, config) if config.train.teachers else pairs
    bleu = partial(validation_bleu, config, network, tokenizers, ranks)
    return train_network(config, ranks, run, network, loader, validation_batches(config, ranks), bleu)


def fresh_network(config: Config, tokenizers: TokenizerPair) -> TranslationNetwork:
    """Returns the untrained network of the configuration; every rank draws the same weights from the seed."""
    torch.manual_seed(config.seed)
    network = build_network(model_config(config.model), tokenizers.source.vocabulary, tokenizers.target.vocabulary)
    network.check_vocabularies(tokenizers.one_vocabulary)
    warm_start.initialise(config, network, tokenizers)
    pretrained_embeddings.initialise(config, network, tokenizers)
    return network


def validation_batches(config: Config, ranks: Ranks) -> Callable[[], Iterable[TranslationBatch]]:
    """Yields this rank's share of the validation batches, anew at each call."""
    reader = ShardReader(config.shard_dir, "valid")
    reader.expect_all()
    if denoises(config):
        return lambda: held_out_noised(reader, config.loader, ranks.rank, ranks.world)
    return lambda: held_out_batches(reader, config.loader.batch_tokens, ranks.rank, ranks.world)


def denoises(config: Config) -> bool:
    """Returns True for a training on noised texts of each side instead of pairs."""
    return config.loader.denoise != "none"


def make_loader(reader: ShardReader, config: Config, rank: int = 0, world: int = 1) -> LaneLoader:
    """Returns the training split."""
    kind = DenoisingLoader if denoises(config) else LaneLoader
    return kind(reader, config.loader, config.seed, rank, world)


def check_denoising(config: Config) -> None:
    """Raises UserError for settings that measure or teach translation in a training that learns none."""
    if not denoises(config):
        return
    setting, teacher_names = f"loader.denoise={config.loader.denoise}", config.train.teachers
    refuse_bleu(config, setting)
    if teacher_names:
        raise UserError(f"train.teachers={teacher_names}: not with {setting}; choose []")


def validation_bleu(config: Config, network: TranslationNetwork, tokenizers: TokenizerPair, ranks: Ranks) -> float:
    """Returns greedy sacreBLEU on the head of the validation set, on the final evaluation's scale.

    Each rank decodes its part; rank 0 scores for all, because the tokeniser depends on what its machine has installed.
    """
    sources, references = held_out_texts(config.shard_dir, "valid", config.languages, VALIDATION_SENTENCES)
    network.eval()
    translator = network_translator(network, tokenizers, DecodeConfig(beam=1))
    mine = [answer.text for answer in translator.translate(sources[ranks.rank :: ranks.world])]
    network.train()
    hypotheses = [""] * len(sources)
    for rank, texts in enumerate(ranks.gather(mine)):
        hypotheses[rank :: ranks.world] = texts
    bleu = quick_bleu(hypotheses, references, config.languages[1], config.evaluate.tokenize) if ranks.first else 0.0
    return float(ranks.from_first(bleu))


def validate(config: Config) -> None:
    """Reports all mistakes that can be known before any worker starts.

    Raises UserError: a setting is out of range, shards are missing or of other languages, a model or lanes do not fit
    them, or a tokeniser of scores is unknown or not installed.
    """
    config.train.check()
    manifest = read_manifest(config.shard_dir)
    if manifest.kind != "parallel" and denoises(config):
        raise UserError(
            f"loader.denoise={config.loader.denoise}: needs shards of two sides, and those in {config.shard_dir} are "
            f"{manifest.kind}. One text may be both sides: dragoman shard corpus=moses pair=en-en "
            f"corpus.train.source=FILE corpus.train.target=FILE; then train with loader.side=source"
        )
    if manifest.kind != "parallel":
        labels = "model=classifier_transformer registry=labels (or tagger_transformer, regressor_transformer), "
        raise UserError(
            f"model={config.model.get('name')}: a translation model needs pairs of sentences, and the shards in "
            f"{config.shard_dir} are {manifest.kind} ({'-'.join(manifest.languages)}). What learns from them: "
            f"{labels if manifest.kind == 'labelled' else ''}model=skipgram registry=vectors, "
            f"model=rnnlm_lstm registry=language"
        )
    check_shards(config)
    for split in ("valid", config.evaluate.split):
        if split in WITHOUT and split not in manifest.splits:
            command = shard_command(f"corpus.cut.{split}=0.02", beside=config.paths.shards)
            raise UserError(f"{config.shard_dir}: {missing(manifest, split)}: {command}")
    tokeniser(config.evaluate.tokenize, config.languages[1])
    processes = worker_count(config)
    check_denoising(config)
    loader = make_loader(open_reader(config.shard_dir, "train", config.loader.reader), config, 0, processes)
    ShardReader(config.shard_dir, "valid")
    teachers.check(config)
    network = fresh_network(config, load_pair(config.shard_dir, manifest.tokenizer))
    refuse_unrunnable(config, network)
    warn_of_warmup(config)
    train = manifest.split("train")
    bound = any(isinstance(module, Positions) for module in network.modules())
    positions = min(network.max_source_positions, network.max_target_positions) if bound else None
    check_lengths(train, manifest.length_bounds, config.loader, positions)
    logger.info(
        f"{config.name}: {config.model['name']}, {counted(network)}; {train.records:,} pairs, "
        f"{train.target_tokens:,} target tokens; {plural(processes, 'worker')}, {plural(config.loader.lanes, 'lane')} "
        f"of {config.loader.batch_tokens:,} tokens; shards {manifest_hash(config.shard_dir)[:12]}"
    )
    for line in loader.mix.describe() if loader.mix else ():
        logger.info(line)
    loader.close()


def fingerprint(config: Config) -> dict[str, Any]:
    """Returns the run's identity: everything that the weights after a given step depend on."""
    begun = {**pretrained_embeddings.identity(config), **warm_start.identity(config)}
    return {
        **network_fingerprint(config, (DenoisingLoader if denoises(config) else LaneLoader).of),
        **begun,
        **teachers.identity(config),
    }


def plan(config: Config) -> Plan:
    """Finds the network's initial weights and its teachers once, before the ranks start."""
    pretrained_embeddings.keep(config)
    manifest, steps = read_manifest(config.shard_dir), config.train.max_steps
    warm_start.keep(config, load_pair(config.shard_dir, manifest.tokenizer))
    teachers.keep(config)
    tokens = config.loader.lanes * config.loader.batch_tokens
    plan_line = f"{manifest.split('train').records:,} pairs: {steps:,} steps of {tokens:,} tokens"
    return Plan(steps, "target tokens", config.cluster, plan_line)


TRANSLATION = network_task(
    kind="translation",
    unread=("vectors",),
    validate=validate,
    fingerprint=fingerprint,
    plan=plan,
    train_rank=train_rank,
    save_bundle=save_bundle,
    record=record,
    evaluate=evaluate,
    judge=judge,
    measure_more=measure_more,
    replay=lambda config: replay_lanes(make_loader(ShardReader(config.shard_dir, "train"), config)),
)
