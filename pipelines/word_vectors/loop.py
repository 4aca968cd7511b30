"""The training loop of word vectors: rounds of one segment per rank, each followed by averaging.

It knows neither Ray nor MLflow, and of a method only its tables and its training on a segment. The ranks decide from
the round or from a summed value. A *step* is a segment, counted over all epochs and ranks, so steps mean the same for
any number of ranks, and a run may resume with another number.
"""

import itertools
import math
import zlib
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path

import torch

from dragoman.model.errors import UserError
from dragoman.model.word_vectors.learner import Learner
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.loaders.segments import NOTHING, Feed
from dragoman.pipelines.training.publishing import Publisher, Speed, publisher
from dragoman.pipelines.word_vectors.averaging import Averaging, as_tensor, finite, rate_factor
from dragoman.pipelines.word_vectors.settings import VectorsConfig

Report = Callable[[int, dict[str, float]], None]
TABLES = "tables"  # the checkpoint's group of tensors


@dataclass
class Sums:
    """Sums over all ranks of the text that was trained on."""

    loss: float = 0.0
    predictions: int = 0
    size: int = 0  # in the feed's unit, words
    digest: int = 0  # sum of the segments' digests, independent of their order

    @property
    def mean(self) -> float | None:
        """Returns the mean loss per prediction; None without predictions."""
        return self.loss / self.predictions if self.predictions else None

    def add(self, loss: float, predictions: float, size: float, digest: float) -> None:
        self.loss += loss
        self.predictions += int(predictions)
        self.size += int(size)
        self.digest = (self.digest + int(digest)) % 2**32


@dataclass
class Progress:
    """The state of a training apart from its tables."""

    step: int = 0  # finished segments, over all epochs
    epoch: int = 0
    segment: int = 0  # the next segment of the epoch
    trained: Sums = field(default_factory=Sums)  # in this epoch so far
    losses: list[float] = field(default_factory=list)  # mean loss per prediction of each finished epoch


@dataclass(frozen=True)
class Decay:
    """The learning rate, linear from `first` at the beginning of the run to `last` at its end."""

    first: float
    last: float

    def at(self, part: float) -> float:
        """`part`: the finished part of the run, 0 to 1."""
        return self.first + (self.last - self.first) * part

    def times(self, factor: float) -> "Decay":
        return Decay(self.first * factor, self.last * factor)


def train_tables(
    learner: Learner,
    feed: Feed,
    config: VectorsConfig,
    decay: Decay,
    run: Path,
    ranks: Ranks,
    seed: int,
    threads: int,
    report: Report,
) -> Progress:
    """Trains from the newest checkpoint, or from the start, to the end; the last checkpoint holds the result.

    `decay` is for one rank. On one rank and one thread a resumed run gives the same bits as an undisturbed one.
    """
    steps = config.epochs * feed.segments
    recent, speed, rounds = Sums(), Speed(), 0
    with publisher(run, ranks) as publish:
        progress = resume(learner, feed, publish)
        decay = decay.times(rate_factor(decay.first, ranks.world, config))
        averaging = Averaging(learner.tables, ranks)
        publish.begin(progress.step)
        last_step = progress.step  # the journal's last step
        while progress.epoch < config.epochs and not publish.stops:
            rate = decay.at(progress.step / steps)
            mine = train_segment(learner, feed, progress, rate, ranks, seed, threads)
            sums = publish.sum(torch.tensor(mine, dtype=torch.float64, device=ranks.device))
            if not math.isfinite(sums[0]):
                raise overflow(progress.step, f"the loss is {sums[0]}", rate)
            averaging.after_round()
            rounds += 1
            recent.add(*sums)
            speed.count(sums[2])
            progress.trained.add(*sums)
            taken = min(ranks.world, feed.segments - progress.segment)
            progress.segment += taken
            progress.step += taken

            ends_epoch = progress.segment == feed.segments
            last = ends_epoch and progress.epoch + 1 == config.epochs
            saves = last or (config.checkpoint_every > 0 and rounds % config.checkpoint_every == 0)
            saves = saves or publish.is_due(config.checkpoint_minutes)
            if saves or ends_epoch or rounds % config.log_every == 0:
                sent = averaging.sent_since()
                line = {"step": progress.step, "steps": progress.step - last_step, "loss": recent.mean, "lr": rate}
                publish.write({**line, "tokens": recent.size, "batch": f"{recent.digest:08x}"})
                last_step = progress.step
                report(progress.step, metrics(recent, rate, feed.unit, speed.rate(), sent * ranks.world))
                recent = Sums()
            if ends_epoch:
                epoch = {"epoch_loss": end_epoch(progress), "epoch": progress.epoch}
                publish.write({"step": progress.step, **epoch})
                report(progress.step, epoch)
            if saves:
                averaging.everything()
                save(learner, feed, progress, publish, config.keep_checkpoints, rate)
    return progress


def train_segment(
    learner: Learner, feed: Feed, progress: Progress, rate: float, ranks: Ranks, seed: int, threads: int
) -> tuple[float, int, int, int]:
    """Trains on this rank's segment of the round; returns (summed loss, predictions, size, digest).

    The last round of an epoch may have none for this rank."""
    index = progress.segment + ranks.rank
    segment = feed.segment(progress.epoch, index) if index < feed.segments else NOTHING
    # draws depend only on the segment, so any number of ranks draws the same
    drawn = zlib.crc32(f"{seed} {progress.epoch} {index}".encode())
    loss, predictions = learner.train(segment, rate, drawn, threads)
    return loss, predictions, feed.size(segment), segment.digest()


def replay_segments(feed: Feed) -> Generator[tuple[int, int]]:
    """Yields (digest, size) of the segment of each step, over all epochs, without end."""
    for epoch in itertools.count():
        for index in range(feed.segments):
            segment = feed.segment(epoch, index)
            yield segment.digest(), feed.size(segment)


def end_epoch(progress: Progress) -> float:
    """Starts the next epoch; returns the mean loss of the finished one."""
    mean = progress.trained.mean
    if mean is None:
        raise UserError(
            f"epoch {progress.epoch + 1}: no text was left to train on: every record has fewer than two words that "
            f"are frequent enough (model.min_count) and not subsampled away (raise model.sample, or 0 to keep all)"
        )
    progress.losses.append(mean)
    progress.epoch, progress.segment, progress.trained = progress.epoch + 1, 0, Sums()
    return mean


def metrics(recent: Sums, rate: float, unit: str, speed: float, sent: int) -> dict[str, float]:
    """Returns the metrics of the rounds since the last line. `sent`: bytes that all ranks have sent."""
    values = {"lr": rate, f"{unit}_per_second": speed, "bytes_per_word": sent / max(recent.size, 1)}
    return values if recent.mean is None else {"loss": recent.mean, **values}


def save(
    learner: Learner, feed: Feed, progress: Progress, publish: Publisher, keep_checkpoints: int, rate: float
) -> None:
    """Writes a checkpoint of the tables, equal on all ranks, and of the position in the text. Rank 0 writes."""
    ranks = publish.ranks
    if not ranks.from_first(finite(learner.tables) if ranks.first else None):
        raise overflow(progress.step, "the tables hold numbers that are not finite", rate)
    if ranks.first:
        state = {**vars(progress), "trained": vars(progress.trained), "segments": feed.segments}
        tables = {name: as_tensor(table) for name, table in learner.tables.items()}
        publish.checkpoint(progress.step, {TABLES: tables}, state, keep_checkpoints)
    publish.saved()


def resume(learner: Learner, feed: Feed, publish: Publisher) -> Progress:
    """Loads the newest checkpoint that rank 0 sees into the tables; returns its progress."""
    newest = publish.resume()
    if newest is None:
        return Progress()
    last_checkpoint, groups, state = newest
    check_tables(learner, groups[TABLES], str(last_checkpoint))
    for name, table in learner.tables.items():
        as_tensor(table).copy_(groups[TABLES][name])
    if state.pop("segments") != feed.segments:
        raise UserError(
            f"{last_checkpoint}: the text had another number of segments then; start a new run (another name=)"
        )
    return Progress(**{**state, "trained": Sums(**state["trained"])})


def check_tables(learner: Learner, stored: dict[str, torch.Tensor], where: str) -> None:
    """Raises UserError if stored tables have other names or shapes than the learner's."""
    shapes_expected = {name: tuple(table.shape) for name, table in learner.tables.items()}
    shapes = {name: tuple(table.shape) for name, table in stored.items()}
    if shapes_expected != shapes:
        raise UserError(f"{where}: holds the tables {shapes}, this model has {shapes_expected}")


def overflow(step: int, what: str, rate: float) -> UserError:
    """Returns the error for a learning rate that was too high."""
    return UserError(
        f"step {step}: {what} at a learning rate of {rate:.3g}; lower model.lr (or vectors.max_lr, up to which "
        f"vectors.scale_lr raises it for several ranks) and start a new run. The last checkpoint is from before that"
    )
