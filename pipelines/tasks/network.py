"""The work of one training process of a network of any kind: its record, its trainer, its end."""

import contextlib
import logging
from collections.abc import Callable, Iterable

from model.errors import UserError
from model.networks.architectures import architecture
from model.networks.network import Network
from model.runs import checkpoints
from model.text.text_batch import Batch
from pipelines.cluster.ranks import Ranks
from pipelines.config import Config
from pipelines.tasks.parts import rates, share
from pipelines.tasks.precision import settle_precision
from pipelines.tasks.run import Run
from pipelines.tracking.run import TrackedRun
from pipelines.training.loop import Loader, Progress, Trainer, limits

logger = logging.getLogger(__name__)


def rank_record(run: Run, ranks: Ranks) -> "contextlib.AbstractContextManager[TrackedRun | None]":
    """Returns the run's record for a block on the first rank, None on the others; the driver continues it."""
    return run.shared_record(begin=False) if ranks.first else contextlib.nullcontext()


def train_network(
    config: Config,
    ranks: Ranks,
    run: Run,
    network: Network,
    loader: Loader,
    held_out: Callable[[], Iterable[Batch]],
    bleu: Callable[[], float] | None = None,
) -> Progress:
    """Trains on this rank until the run is over, from the run's newest checkpoint, and closes the loader."""
    with contextlib.closing(loader), rank_record(run, ranks) as tracked:
        if tracked and (trained := share(network)) < 1:
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
            held_out=held_out,
            bleu=bleu,
            scales=rates(config, network),
        )
        return trainer.run(tracked.metrics if tracked else lambda step, values: None)


def refuse_noise(config: Config) -> None:
    """Raises UserError for the noise of encoder-decoders, where no network of the kind reads it."""
    if config.loader.denoise != "none":
        raise UserError(
            f"loader.denoise={config.loader.denoise}: only encoder-decoders are pre-trained so; choose none, or "
            f"model=transformer_tiny"
        )


def needs_training(config: Config) -> bool:
    """Returns True if a network's training is not finished."""
    newest = checkpoints.newest(config.run_dir)
    if newest is None:
        return True
    state = checkpoints.state(newest)
    step, max_steps = state["step"], config.train.max_steps
    over = step >= max_steps or (state["stopped"] and state["limits"] == limits(config.train))
    then = "is trained to its end" if over else f"goes on to step {max_steps:,}"
    logger.info(f"{config.name}: found the checkpoint of step {step:,}; the run {then}")
    return not over
