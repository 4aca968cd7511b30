"""The training of networks of any kind: its checks, and the work of one process."""

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch

from dragoman.model.bundles.ancestry import ancestry
from dragoman.model.bundles.weights import fill
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import architecture, build_network, model_config
from dragoman.model.networks.network import Network
from dragoman.model.plural import plural
from dragoman.model.runs import checkpoints
from dragoman.model.shards.manifest import Manifest, manifest_hash, read_manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.text_batch import Batch
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.sharded import cutting, shard_command, training_file
from dragoman.pipelines.loaders.prefetch import Lanes, check_lanes
from dragoman.pipelines.tasks import warm_start
from dragoman.pipelines.tasks.base import Plan, Training
from dragoman.pipelines.tasks.identity import check_shards, network_fingerprint, origin_facts
from dragoman.pipelines.tasks.parts import counted, share
from dragoman.pipelines.tasks.precision import refuse_unrunnable, settle_precision
from dragoman.pipelines.tasks.run import Run
from dragoman.pipelines.tasks.schedule import warn_of_warmup
from dragoman.pipelines.tasks.workers import worker_count
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.training.final_weights import (
    final_weights,
    keep_last,
    stored_weights,
    weights_facts,
    weights_hashes,
)
from dragoman.pipelines.training.loop import Progress, Trainer, limits
from dragoman.pipelines.training.time_limit import TimeLimit, kept_limit
from dragoman.pipelines.training.verification import replay_lanes

logger = logging.getLogger(__name__)


def rank_record(run: Run, ranks: Ranks) -> "contextlib.AbstractContextManager[TrackedRun | None]":
    """Returns the run's record for a block on the first rank, None on the others; the driver continues it."""
    return run.shared_record(begin=False) if ranks.first else contextlib.nullcontext()


class Learning(ABC):
    """The data and the checks of a training: all that the kinds of network differ in before a release."""

    kind: ClassVar[str]  # of its bundles
    called: ClassVar[str]  # what it is in a message
    unit: ClassVar[str] = "tokens"  # of the journal
    passes: ClassVar[float] = 3.0  # the time of a release, in passes over the validation set

    def __init__(self, config: Config) -> None:
        """Raises UserError: no shards."""
        self.config, self.shards, self.settings = config, config.shard_dir, config.loader
        self.manifest = read_manifest(self.shards)

    @cached_property
    def tokenizers(self) -> TokenizerPair:
        return load_pair(self.shards, self.manifest.tokenizer)

    @cached_property
    def network(self) -> Network:
        """The untrained network; every rank draws the same weights from the seed."""
        torch.manual_seed(self.config.seed)
        sizes = self.tokenizers.source.vocabulary, self.tokenizers.target.vocabulary
        network = build_network(model_config(self.config.model), *sizes)
        self.check_network(network)
        warm_start.initialise(self.config, network, self.tokenizers)
        return network

    @property
    def longest(self) -> int:
        """The most tokens of a record that is trained on."""
        return min(self.settings.max_length, self.settings.batch_tokens)

    @property
    @abstractmethod
    def of_loader(self) -> Sequence[str]:
        """The settings that the order of the loader depends on."""

    @abstractmethod
    def loader(self, rank: int = 0, world: int = 1) -> Lanes[Any]:
        """Returns the training split."""

    @abstractmethod
    def held_out(self, ranks: Ranks) -> Callable[[], Iterable[Batch]]:
        """Returns what yields this rank's share of the validation split, anew at each call."""

    @abstractmethod
    def describe(self) -> str:
        """Returns what is learned from, for a message."""

    def check(self) -> None:
        """Refuses shards and settings that are not of the kind."""
        check_shards(self.config)
        refuse_translation_settings(self.config, self.called)
        check_held_out(self.config, self.manifest)

    def check_network(self, network: Network) -> None:
        """Refuses a network that does not fit the shards, before it has its weights."""
        check_positions("max_length", self.longest, network)

    def bleu(self, ranks: Ranks) -> Callable[[], float] | None:
        """Returns what measures BLEU in a training; None where it has no meaning."""
        return None

    def shares(self, loader: Any) -> Iterable[str]:
        """Returns a line for each part of a mix."""
        return ()

    def plan(self) -> str:
        """Returns what is trained, with room for its `{steps}`: said with its time when the rate is known."""
        return ""


@dataclass(frozen=True)
class NetworkTraining(Training):
    """The training of a kind of network: `learning` has its data and its checks."""

    learning: Callable[[Config], Learning]
    unread: tuple[str, ...]

    def validate(self, config: Config) -> None:
        """Reports all mistakes that can be known before any worker starts."""
        config.train.check()
        learning = self.learning(config)
        learning.check()
        processes = worker_count(config)
        with contextlib.closing(learning.loader(0, processes)) as loader:
            refuse_unrunnable(config, learning.network)
            warn_of_warmup(config)
            ShardReader(learning.shards, "valid")
            logger.info(
                f"{config.name}: {config.model['name']}, {counted(learning.network)}; {learning.describe()}; "
                f"{plural(processes, 'worker')}, {plural(config.loader.lanes, 'lane')} of "
                f"{config.loader.batch_tokens:,} tokens; shards {manifest_hash(learning.shards)[:12]}"
            )
            for line in learning.shares(loader):
                logger.info(line)

    def validate_settings(self, config: Config) -> None:
        check_lanes(config.loader.lanes, worker_count(config))

    def fingerprint(self, config: Config) -> dict[str, Any]:
        return network_fingerprint(config, self.learning(config).of_loader)

    def needs_training(self, config: Config) -> bool:
        """Returns True if a network's training is not finished."""
        newest = checkpoints.newest(config.run_dir)
        if newest is None:
            return True
        state = checkpoints.state(newest)
        step = state["step"]
        max_steps = min(config.train.max_steps, kept_limit(state, config.train).steps or config.train.max_steps)
        over = step >= max_steps or (state["stopped"] and state["limits"] == limits(config.train))
        if step == max_steps:
            keep_last(config.run_dir, step)
        then = "is trained to its end" if over else f"goes on to step {max_steps:,}"
        logger.info(f"{config.name}: found the checkpoint of step {step:,}; the run {then}")
        return not over

    def plan(self, config: Config) -> Plan:
        """Keeps what the network begins with, once, before the ranks start."""
        learning = self.learning(config)
        warm_start.keep(config, learning.tokenizers)
        train = config.train
        return Plan(train.max_steps, learning.unit, config.cluster, learning.plan(), bool(train.max_minutes))

    def train_rank(self, config: Config, ranks: Ranks, run: Run) -> Progress:
        """Trains on this rank until the run is over, from the run's newest checkpoint."""
        learning = self.learning(config)
        network, loader = learning.network, learning.loader(ranks.rank, ranks.world)
        minutes = config.train.max_minutes
        with contextlib.closing(loader), rank_record(run, ranks) as tracked:
            if tracked:
                tracked.tags(ancestry(warm_start.facts(config)))
                if (trained := share(network)) < 1:
                    tracked.metrics(0, {"trained_share": trained})
            trainer = Trainer(
                network,
                architecture(config.model["architecture"]).loss,
                loader,
                config.loader.lanes,
                settle_precision(config, network, ranks, tracked),
                run.folder,
                ranks,
                config.seed,
                held_out=learning.held_out(ranks),
                bleu=learning.bleu(ranks),
                time_limit=TimeLimit(minutes, run.began, learning.passes) if minutes else None,
            )
            return trainer.run(tracked.metrics if tracked else lambda step, values: None)

    def weights_origin(self, config: Config) -> list[str]:
        return weights_hashes(config.run_dir, config.train)

    def stored_origin(self, facts: Mapping[str, Any]) -> list[str]:
        return stored_weights(facts)

    def replay(self, config: Config) -> Generator[tuple[int, int]]:
        return replay_lanes(self.learning(config).loader())


def final_network(config: Config, tracked: TrackedRun, source: int, target: int) -> tuple[Network, dict[str, Any]]:
    """Returns the network with its final weights, in evaluation mode, and what its bundle says of its origin.

    `source`, `target`: the sizes of its vocabularies.
    """
    weights, steps = final_weights(config.run_dir, config.train)
    network = build_network(model_config(config.model), source, target)
    fill(network, weights, str(config.run_dir))
    of_weights = {"weights": weights_facts(config.run_dir, config.train, steps)}
    return network.eval(), {**origin_facts(config, tracked), **of_weights, **warm_start.facts(config)}


def refuse_translation_settings(config: Config, kind: str) -> None:
    """Raises UserError for settings that only translation models read; `kind` is the model in a message."""
    refuse_noise(config)
    refuse_bleu(config, kind)
    if config.embeddings.references:
        raise UserError("embeddings.source: only translation models start from word vectors")


def refuse_bleu(config: Config, kind: str) -> None:
    """Raises UserError if BLEU is to be measured during a training that learns no translation."""
    train = config.train
    if train.early_stopping.metric == "bleu" or train.bleu_every:
        watched = train.early_stopping.metric == "bleu"
        key = "early_stopping.metric=bleu" if watched else f"bleu_every={train.bleu_every}"
        raise UserError(f"train.{key}: {kind} translates nothing; early stopping may watch the loss")


def check_held_out(config: Config, manifest: Manifest) -> None:
    """Raises UserError if the shards hold out no validation set, or not the split to evaluate on."""
    texts, cut = manifest.texts, cutting(manifest, config.corpus.cut.run)
    for key, split in (("", "valid"), ("evaluate.split=", config.evaluate.split)):
        if split not in texts:
            file = training_file(manifest, config.corpus.train.file)
            more = f"this sets texts aside: {shard_command(*cut, beside=config.paths.shards, file=file)}"
            if key and texts:
                more = f"evaluate.split={next(iter(texts))} scores on that"
            raise UserError(f"{key}{split}: {config.shard_dir} holds out {', '.join(texts) or 'nothing'}; {more}")


def check_positions(key: str, length: int, network: Network) -> None:
    """Raises UserError if rows would be longer than the network's positions."""
    most = getattr(network, "max_positions", None)
    if most is not None and length > most:
        raise UserError(f"loader.{key}={length}: the network has only model.max_positions={most}")


def refuse_noise(config: Config) -> None:
    """Raises UserError for the noise of encoder-decoders, where no network of the kind reads it."""
    if config.loader.denoise != "none":
        raise UserError(
            f"loader.denoise={config.loader.denoise}: only encoder-decoders are pre-trained so; choose none, or "
            f"model=transformer_tiny"
        )
