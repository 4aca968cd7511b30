"""What is looked at before a training starts: its shards, byte by byte, and settings that train little."""

import logging

from model.errors import UserError
from model.languages import same_pair
from model.shards.manifest import read_manifest
from model.shards.verify import verify_once
from model.storage.mirror import remote_of
from pipelines.config import Config
from pipelines.tasks.workers import is_first

logger = logging.getLogger(__name__)


def check_shards(config: Config) -> None:
    """Read every byte of the shards once and remember it: a flipped token id would train without a word.

    Raises:
        UserError: a file is missing or is not the one in the manifest, or shards of other languages than `pair`.
    """
    manifest = read_manifest(config.shard_dir)
    if not same_pair("-".join(manifest.languages), "-".join(config.languages)):
        raise UserError(f"pair={config.pair}: the shards in {config.shard_dir} are {'-'.join(manifest.languages)}")
    if is_first() and remote_of(config.shard_dir) is None:  # of those elsewhere each is checked when it is fetched
        verify_once(config.shard_dir, config.paths.local(config.paths.root) / "verified")


def warn_of_warmup(config: Config) -> None:
    """Say that a run will hardly train at its learning rate: most such warm-ups were meant for a longer run."""
    warmup, steps = config.train.optimizer.warmup_steps, config.train.max_steps
    if 3 * warmup > steps:
        logger.warning(
            f"train.optimizer.warmup_steps={warmup}: more than a third of train.max_steps={steps}; the learning rate "
            + (f"reaches {config.train.optimizer.lr:g} late" if warmup < steps else "never reaches its height")
            + f", and {max(1, steps // 10)} would leave it time to fall"
        )
