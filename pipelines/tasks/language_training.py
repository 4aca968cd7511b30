"""What one training process does for a language model: puts text, loader, network and tracking together and runs the
loop. Networks that carry states read streams, those with a bounded view windows, masked ones whole records."""

from collections.abc import Callable, Iterable
from typing import Any

import torch

from model.errors import UserError
from model.networks.architectures import any_network, architecture, model_config
from model.networks.language_network import LanguageNetwork
from model.networks.network import Network
from model.text.text_batch import TextBatch
from model.text.tokenizer import Tokenizer
from pipelines.cluster.ranks import Ranks
from pipelines.config import Config
from pipelines.evaluation.language.held_out import PARTS, parts, span_batches, views
from pipelines.loaders.blocks import OF_WINDOWS, WindowLoader
from pipelines.loaders.masked import OF_MASKED, MaskedLoader, held_out_masked
from pipelines.loaders.masking import masking
from pipelines.loaders.prefetch import Lanes
from pipelines.loaders.streams import OF_STREAMS, StreamLoader, rows_of
from pipelines.loaders.text import SplitText, side_tokenizer
from pipelines.shards.manifest import read_manifest
from pipelines.tasks.precision import settled
from pipelines.tasks.translation_training import identity_of_text
from pipelines.tracking.run import TrackedRun
from pipelines.training.loop import Progress, Trainer


def train_rank(config: Config, ranks: Ranks) -> Progress:
    """Train on this rank until the run is over; goes on from the run's newest checkpoint.

    Raises:
        UserError: the shards, the model or the run directory do not fit each other.
    """
    tokenizer = text_tokenizer(config)
    network = fresh_network(config, tokenizer)
    loader = make_loader(config, network, tokenizer, ranks.rank, ranks.world)
    tracked = TrackedRun(config.tracking, config.run_dir, config.name) if ranks.first else None
    try:
        trainer = Trainer(
            network,
            architecture(config.model["architecture"]).loss,
            loader,
            config.loader.lanes,
            settled(config, network, ranks, tracked),
            config.run_dir,
            ranks,
            config.seed,
            held_out=validation_batches(config, network, tokenizer, ranks),
        )
        return trainer.run(tracked.metrics if tracked else lambda step, values: None)
    finally:
        loader.close()
        if tracked:
            # The run goes on in the driver (evaluation, registration): hand over without ending it.
            tracked.leave()


def text_tokenizer(config: Config) -> Tokenizer:
    """The tokenizer of the text that is trained on."""
    return side_tokenizer(config.shard_dir, read_manifest(config.shard_dir), config.loader.side)


def fresh_network(config: Config, tokenizer: Tokenizer) -> Network:
    """The untrained network of the configuration; every rank draws the same weights from the seed."""
    torch.manual_seed(config.seed)
    return any_network(model_config(config.model), tokenizer.vocabulary, tokenizer.vocabulary)


def carries(network: Network) -> bool:
    """Whether the network reads on from batch to batch; else each row stands for itself."""
    return isinstance(network, LanguageNetwork) and network.max_positions is None


def make_loader(
    config: Config, network: Network, tokenizer: Tokenizer, rank: int = 0, world: int = 1
) -> Lanes[TextBatch]:
    """The training split as the network reads it.

    Raises:
        UserError: settings of the section `loader` that do not fit the text, the network or the ranks.
    """
    settings = config.loader
    text = SplitText(config.shard_dir, "train", settings.side)
    if carries(network):
        return StreamLoader(text, settings, config.seed, rank, world)
    if isinstance(network, LanguageNetwork):
        check_positions("context_length", settings.context_length, network)
        return WindowLoader(text, settings, config.seed, rank, world)
    check_positions("max_length", min(settings.max_length, settings.batch_tokens), network)
    rules = masking(tokenizer, settings.mlm_probability, settings.whole_words)
    return MaskedLoader(text, settings, rules, config.seed, rank, world)


def check_positions(key: str, length: int, network: Network) -> None:
    """Raises UserError where rows would be longer than the network's positions."""
    most = getattr(network, "max_positions", None)
    if most is not None and length > most:
        raise UserError(f"loader.{key}={length}: the network has only model.max_positions={most}")


def validation_batches(
    config: Config, network: Network, tokenizer: Tokenizer, ranks: Ranks
) -> Callable[[], Iterable[TextBatch]]:
    """This rank's share of the validation split, anew at each call.

    Between two steps of a training it is read in the cheapest way that is fair: recurrent networks read rows in
    parallel, each from its beginning to its end; windows do not overlap. The final evaluation gives more context.
    """
    settings = config.loader
    text = SplitText(config.shard_dir, "valid", settings.side)
    if not isinstance(network, LanguageNetwork):
        rules = masking(tokenizer, settings.mlm_probability, settings.whole_words)
        longest = min(settings.max_length, settings.batch_tokens)
        return lambda: held_out_masked(text, rules, longest, settings.batch_tokens, ranks.rank, ranks.world)
    rows = rows_of(settings)
    if carries(network):
        count = max(PARTS, min(rows, text.tokens // (8 * settings.context_length)))  # each long against its beginning
        spans = parts(text.tokens, count, 0)
    else:
        spans = views(text.tokens, settings.context_length, settings.context_length)
    return lambda: span_batches(text, spans, rows, settings.context_length, ranks.rank, ranks.world)


def identity(config: Config, network: Network) -> dict[str, Any]:
    """What makes two starts the same run: everything that the weights after a given step depend on."""
    if isinstance(network, LanguageNetwork):
        return identity_of_text(config, OF_STREAMS if carries(network) else OF_WINDOWS)
    return identity_of_text(config, OF_MASKED)
