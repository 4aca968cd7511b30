"""`train.teachers`: a network learns from the targets and from the mean probabilities of other networks.

Word-level knowledge distillation (Kim and Rush 2016), from an ensemble if several are named (Freitag et al. 2017). The
teachers run once, before the training: their likeliest tokens for every target of the training set are stored in the
run's directory (taught.safetensors), some 50 bytes per target token. So a step costs as much as without them, and a
resumed run does not need them.

Letters: R records, M target tokens of the training set, K tokens kept of each.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from dragoman.model.bundles.ensemble import load_ensemble
from dragoman.model.bundles.translation import TranslationBundle, load_bundle
from dragoman.model.errors import UserError
from dragoman.model.languages import same_pair
from dragoman.model.networks.ensemble import Ensemble
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.runs.paths import TAUGHT
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.batch import TranslationBatch
from dragoman.model.text.distillation import Distillation
from dragoman.model.text.tokenizer import PAD, TokenizerPair
from dragoman.model.text.tokenizers import load_pair
from dragoman.pipelines.config import Config
from dragoman.pipelines.corpus.sharded import shard_command, training_file
from dragoman.pipelines.loaders.modifiers import any_of
from dragoman.pipelines.loaders.pairs import LaneLoader, held_out_batches
from dragoman.pipelines.tasks.kept import Kept, Note
from dragoman.pipelines.training.loop import Loader
from dragoman.pipelines.training.progress import LINE_SECONDS

logger = logging.getLogger(__name__)

KEY = "train.teachers"
KEPT = 8  # tokens per target: they have nearly all of the probability
BATCH_TOKENS = 4096


def check(config: Config) -> None:
    """Refuses teachers that cannot teach this run, and pairs that differ from those that they rated."""
    teachers = config.train.teachers
    if not teachers or ANSWERS.note(config):
        return
    for key in ("sampling", "both_directions"):
        value = getattr(config.loader, key)
        if value:
            raise UserError(f"loader.{key}={value:g}: not with {KEY}, which were asked about the pairs as they stand")
    if any_of(config.loader.modifiers):
        raise UserError(f"loader.modifiers: not with {KEY}, which were asked about the pairs as they stand")
    bundle = _bundle(config)
    if not same_pair(bundle.pair, config.pair):
        raise UserError(f"{KEY}={teachers}: translate {bundle.pair}, this run {config.pair}")
    manifest = read_manifest(config.shard_dir)
    if bundle.tokenizers.describe() != load_pair(config.shard_dir, manifest.tokenizer).describe():
        file = training_file(manifest, config.corpus.train.file)
        raise UserError(
            f"{KEY}={teachers}: their tokenizer is not that of the shards in {config.shard_dir}. Make shards with it: "
            f"{shard_command(*file, f'tokenizer.same_as={teachers[0]}', beside=config.paths.shards)}"
        )


def make(config: Config, _tokenizers: TokenizerPair) -> tuple[Mapping[str, Tensor], Note]:
    """Returns the teachers' probabilities of every pair of the training set."""
    bundle = _bundle(config)
    network = bundle.network
    members = network.members if isinstance(network, Ensemble) else [network]
    logger.info(f"{KEY}: {len(members)} teachers are asked about every pair of the training set")
    longest = min(config.loader.max_length, config.loader.batch_tokens)  # longer ones are not trained on
    answers = ask(members, ShardReader(config.shard_dir, "train"), longest)
    return answers, {"references": config.train.teachers, "digest": bundle.digest}


@torch.inference_mode()
def ask(members: Sequence[TranslationNetwork], reader: ShardReader, longest: int) -> dict[str, Tensor]:
    """Returns `lengths` (R,) of the records' targets, and for each of their tokens `tokens` (M, K) int32 and `shares`
    (M, K) float16: the K highest of the members' mean probabilities, scaled so that they sum to 1.

    Records with a side of more than `longest` tokens have the length 0 and are skipped.
    """
    lengths = np.zeros(reader.records, dtype=np.int64)
    answers: list[tuple[NDArray[np.int64], Tensor, Tensor]] = []
    done, begun, said = 0, time.monotonic(), time.monotonic()
    for batch in held_out_batches(reader, BATCH_TOKENS, longest=longest):
        real = batch.target_out != PAD  # (B, T)
        lengths[batch.ids] = real.sum(1).numpy()
        mean = torch.stack([network.logits(network(batch)[real]).softmax(-1) for network in members]).mean(0)  # (N, V)
        shares, tokens = mean.topk(min(KEPT, mean.shape[1]))
        answers.append((batch.ids, tokens.int(), (shares / shares.sum(1, keepdim=True)).half()))
        done, now = done + len(batch.ids), time.monotonic()
        if now - said >= LINE_SECONDS:
            said, left = now, (now - begun) * (reader.records - done) / done
            logger.info(f"{KEY}: asked about {done:,} of {reader.records:,} pairs | {left:,.0f} s left")
    starts = np.cumsum(lengths) - lengths
    width = answers[0][1].shape[1] if answers else KEPT
    tokens = torch.empty(int(lengths.sum()), width, dtype=torch.int32)
    shares = torch.empty(tokens.shape, dtype=torch.float16)
    for ids, some, their in answers:
        rows = torch.from_numpy(rows_of(starts[ids], lengths[ids]))
        tokens[rows], shares[rows] = some, their
    return {"lengths": torch.from_numpy(lengths), "tokens": tokens, "shares": shares}


def rows_of(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the numbers starts[i], ..., starts[i] + lengths[i] - 1 for each i, one after the other."""
    before = np.cumsum(lengths) - lengths
    rows: NDArray[np.int64] = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
    return rows


class TaughtLoader:
    """A loader whose batches carry the teachers' probabilities."""

    def __init__(self, loader: LaneLoader, path: Path, part: float) -> None:
        self._loader, self._part = loader, part
        answers = load_file(path)
        self._lengths: NDArray[np.int64] = answers["lengths"].numpy()
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._tokens, self._shares = answers["tokens"], answers["shares"]

    def step(self) -> list[TranslationBatch]:
        """Returns the next batch of each of this rank's lanes."""
        return [replace(batch, taught=self._taught(batch.ids)) for batch in self._loader.step()]

    def state(self) -> dict[str, Any]:
        return self._loader.state()

    def load_state(self, state: dict[str, Any]) -> None:
        self._loader.load_state(state)

    def close(self) -> None:
        self._loader.close()

    def _taught(self, ids: NDArray[np.int64]) -> Distillation:
        rows = torch.from_numpy(rows_of(self._starts[ids], self._lengths[ids]))
        return Distillation(self._tokens[rows].long(), self._shares[rows].float(), self._part)


def taught(loader: LaneLoader, config: Config) -> Loader:
    """Returns the same batches, with the teachers' probabilities."""
    return TaughtLoader(loader, config.run_dir / TAUGHT, config.train.loss.distillation)


def _bundle(config: Config) -> TranslationBundle:
    directories = [config.bundle_dir(teacher, KEY) for teacher in config.train.teachers]
    return load_bundle(directories[0]) if len(directories) == 1 else load_ensemble(directories, KEY)


ANSWERS = Kept(
    TAUGHT,
    settings=lambda config: {KEY: config.train.teachers} if config.train.teachers else {},
    stored=lambda note: {KEY: note["references"]},
    make=make,
    describe=lambda config, note: iter(()),
)
