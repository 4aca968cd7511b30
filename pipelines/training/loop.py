"""The training loop: plain PyTorch, the same alone, under torchrun and under Ray Train.

It knows neither Ray nor MLflow nor Hydra. Whatever the ranks decide depends on the step or on a summed value.
One *step* is one update: a micro-batch from each of the run's lanes, this rank's lanes one after the other.
"""

import contextlib
import math
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from dragoman.model.bundles.weights import distinct_weights, fill
from dragoman.model.device import kernels
from dragoman.model.durations import duration
from dragoman.model.errors import UserError
from dragoman.model.memory import keep_few_products, keep_freed_memory, return_freed
from dragoman.model.networks.network import Loss, Network
from dragoman.model.precision import autocast_dtype
from dragoman.model.runs.journal import step_digest
from dragoman.model.settings import LossConfig, Precision
from dragoman.model.text.text_batch import Batch
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.settings import TrainConfig
from dragoman.pipelines.training.final_weights import kept_weights
from dragoman.pipelines.training.optimizer import LossScale, MovingAverage, clip, learning_rate, make_optimizer
from dragoman.pipelines.training.publishing import Publisher, Speed, publisher
from dragoman.pipelines.training.recurrent_state import export_state, reset_broken_state, restore_state
from dragoman.pipelines.training.time_limit import Limit, TimeLimit, kept_limit, limited

Report = Callable[[int, dict[str, float]], None]
MAX_NONFINITE = 100  # steps in a row without a finite loss and gradient that end the run
RETURN_EVERY = 50  # steps after which free pages of the heap are returned to the system


def validation_loss(
    network: Network, objective: tuple[Loss, LossConfig], batches: Iterable[Batch], precision: Precision, ranks: Ranks
) -> tuple[float, int]:
    """Returns (mean negative log-likelihood in nats per token, tokens) over every rank's batches."""
    loss, config = objective
    network.eval()
    sums = torch.zeros(2, dtype=torch.float64, device=ranks.device)
    dtype = autocast_dtype(precision)
    with torch.no_grad(), torch.autocast(ranks.device.type, dtype, enabled=dtype is not None):
        for batch in batches:
            sums[0] += loss(network, batch.to(ranks.device), config)[0]
            sums[1] += batch.items
    total, items = ranks.sum(sums).tolist()
    network.train()
    return total / max(items, 1.0), int(items)


class Loader(Protocol):
    """The loop's view of pipelines/loaders/prefetch.py."""

    def step(self) -> Sequence[Batch]: ...
    def state(self) -> dict[str, Any]: ...
    def load_state(self, state: dict[str, Any]) -> None: ...
    def close(self) -> None: ...


@dataclass
class Progress:
    """Everything that changes during training and is not a tensor."""

    step: int = 0
    items: int = 0  # target tokens seen
    skipped: int = 0  # steps without a finite loss and gradient: they updated nothing
    best: float | None = None  # of `best_metric`, lower is better
    best_metric: str = ""
    best_step: int = 0
    waited: int = 0  # evaluations since the best one
    stopped: str = ""  # the reason, if the run ended before its last step
    limit: Limit = field(default_factory=Limit)  # what `train.max_minutes` makes of the settings
    loss_scale: LossScale = field(default_factory=LossScale)


class Objective(nn.Module):
    """Network and loss as one module for DDP, so that its hooks see the whole backward pass."""

    def __init__(self, network: Network, loss: Loss, config: LossConfig) -> None:
        super().__init__()
        self.network = network
        self._loss, self._config = loss, config

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Returns the summed (loss, nll) of one micro-batch."""
        return self._loss(self.network, batch, self._config)


class Trainer:
    """The state of one run in one process; `run` is the loop."""

    def __init__(
        self,
        network: Network,
        loss: Loss,
        loader: Loader,
        lanes: int,
        config: TrainConfig,
        run: Path,
        ranks: Ranks,
        seed: int,
        held_out: Callable[[], Iterable[Batch]],
        bleu: Callable[[], float] | None = None,
        time_limit: TimeLimit | None = None,
    ) -> None:
        """`held_out` yields this rank's share of the validation batches; `bleu` is called on every rank together."""
        keep_few_products()  # unless a command has done so
        self.begun_with, self.time_limit, self.one_pass = config, time_limit, 0.0
        self.undecided_until = math.inf  # seconds of training
        self.config, self.run_dir, self.ranks, self.seed, self.lanes = config, run, ranks, seed, lanes
        self.network = network.to(ranks.device)
        self.objective = Objective(network, loss, config.loss)
        self.loader, self.held_out, self.bleu = loader, held_out, bleu
        self.optimizer = make_optimizer(config.optimizer, network, config.precision, ranks)
        self.parameters = [p for p in network.parameters() if p.requires_grad]
        decay = config.optimizer.ema_decay
        self.average = MovingAverage(decay, network) if decay else None
        self.progress = Progress()
        if config.precision == "fp16":
            self.progress.loss_scale.value = 2.0**15
        self._plain_loss = (loss, LossConfig(label_smoothing=0.0))

    def run(self, report: Report) -> Progress:
        """Trains from the newest checkpoint, or from the beginning, to the end; returns the progress."""
        with keep_freed_memory(), publisher(self.run_dir, self.ranks) as publish:
            self.resume(publish)
            publish.begin(self.progress.step)
            if self.time_limit:
                left = self.ranks.from_first(self.time_limit.left())
                if not left:
                    raise UserError(
                        f"train.max_minutes={self.config.max_minutes:g}: the time was over before the first step could "
                        "be planned, so late did the workers start. Nothing is released. The same command goes on with "
                        "new time; a larger limit gives it more"
                    )
                self.undecided_until = publish.seconds + left
            self._steps(publish, report)
        return self.progress

    def _steps(self, publish: Publisher, report: Report) -> None:
        progress = self.progress
        model = self._distributed()
        speed, mean = Speed(), Mean()
        nonfinite = 0
        while progress.step < self.config.max_steps and not progress.stopped and not publish.stops:
            config, step = self.config, progress.step + 1
            lr = learning_rate(config.optimizer, step, config.schedule_steps or config.max_steps)
            loss, nll, items, *digests = publish.sum(self._gradients(model, self.loader.step(), step))
            norm, finite = self._update(lr, loss, items)
            if not finite:
                reset_broken_state(self.network)
            nonfinite = 0 if finite else nonfinite + 1
            progress.step, progress.items = step, progress.items + int(items)
            progress.skipped += not finite
            if config.precision == "fp16":
                progress.loss_scale.update(finite)
            metrics = {"loss": loss / items, "nll": nll / items, "lr": lr, "norm": norm}
            mean.add(loss, nll, items)
            line = {key: round(value, 9) for key, value in metrics.items()}
            publish.write({"step": step, **line, "tokens": int(items), "batch": step_digest(digests)})
            speed.count(items)
            if nonfinite >= MAX_NONFINITE:
                raise self._diverged(f"step {step - nonfinite + 1}: the first of {nonfinite} without a finite loss")
            if step % config.log_every == 0:
                report(step, {**metrics, **mean.take(), "tokens_per_second": speed.rate(), "skipped": progress.skipped})
            if self.time_limit and self.time_limit.is_due(progress.limit, step, publish.seconds):
                config = self._limit_steps(self.time_limit, step, publish)
            if config.max_minutes and step < config.max_steps and publish.seconds >= self._last_second:
                progress.stopped = self._time_is_over(step)
            if step % RETURN_EVERY == 0 and self.ranks.device.type == "cpu":
                return_freed()
            last = step >= config.max_steps or bool(progress.stopped)
            due = last or step % config.checkpoint_every == 0
            save = due or publish.is_due(config.checkpoint_minutes)
            looks = save or step % config.evaluate_every == 0
            if looks and not all(bool(weight.isfinite().all()) for weight in self.parameters):  # the same on all ranks
                raise self._diverged(
                    f"step {step + 1 - max(nonfinite, 1)}: the weights are not finite numbers any more"
                )
            if last or step % config.evaluate_every == 0:
                measured = self.evaluate()
                report(step, measured)
                publish.write({"step": step, **measured})
                due = due or bool(progress.stopped)
            if save or due:
                self.save(publish, due)
        if progress.stopped:
            publish.write({"step": progress.step, "note": progress.stopped})

    @property
    def _last_second(self) -> float:
        """The seconds of training, over all starts, after which a run with a time limit ends where it is."""
        return self.progress.limit.seconds or self.undecided_until

    def _time_is_over(self, step: int) -> str:
        """Returns the reason to end at `step`."""
        of = f"step {step:,} of {self.config.max_steps:,}"
        if self.progress.limit.steps:
            return f"{self.config.max_minutes:g} min are over: {of}; the steps became slower than planned"
        return f"{self.config.max_minutes:g} min: {of}, which are too slow to plan; the rest is evaluation and release"

    def _limit_steps(self, limit: TimeLimit, step: int, publish: Publisher) -> TrainConfig:
        """Decides or corrects the number of steps on the first rank, for all; returns the settings that follow."""
        before = self.progress.limit
        if not before.steps:
            self._validate()
        mine = limit.decide(self.begun_with, before, step, publish.seconds, self.one_pass)
        self.progress.limit = decided = self.ranks.from_first(mine)
        self.config = limited(self.begun_with, decided)
        if decided.steps != (before.steps or self.begun_with.max_steps):
            now = "now " if before.steps else ""
            note = (
                f"{self.config.max_minutes:g} min: {now}{decided.steps:,} of {self.begun_with.max_steps:,} steps, "
                f"{duration(decided.release)} for evaluation and release"
            )
            publish.write({"step": step, "last_step": decided.steps, "note": note})
        return self.config

    def _diverged(self, what: str) -> UserError:
        """Returns the end of a run whose numbers are not finite; its checkpoints are those of before."""
        settings = self.config.optimizer
        clip = "" if settings.clip_norm else ", or set train.optimizer.clip_norm=1"
        return UserError(f"{what}; lower train.optimizer.lr={settings.lr:g}{clip} and choose another name=")

    def _gradients(self, model: nn.Module, batches: Sequence[Batch], step: int) -> Tensor:
        """Runs backward through this rank's lanes; returns (3 + lanes,) float64: loss, nll, items, digests by lane."""
        sums = torch.zeros(3 + self.lanes, dtype=torch.float64, device=self.ranks.device)
        self.network.train()
        dtype = autocast_dtype(self.config.precision)
        multiple = kernels(self.ranks.device).length_multiple
        for i, batch in enumerate(batches):
            lane = self.ranks.rank + i * self.ranks.world
            # Dropout depends only on the step and the lane: any number of ranks draws the same masks, and a resumed
            # run needs no stored generator.
            torch.manual_seed(zlib.crc32(f"{self.seed} {step} {lane}".encode()))
            batch = batch.padded_to(multiple).to(self.ranks.device)
            synchronise = i == len(batches) - 1 or self.ranks.world == 1
            with contextlib.nullcontext() if synchronise else model.no_sync():  # type: ignore[operator]  # DDP's
                with torch.autocast(self.ranks.device.type, dtype, enabled=dtype is not None):
                    loss, nll = model(batch)
                (loss * self.progress.loss_scale.value).backward()
            sums[0] += loss.detach()
            sums[1] += nll
            sums[2] += batch.items
            sums[3 + lane] = batch.digest()
        return sums

    def _update(self, lr: float, loss: float, items: float) -> tuple[float, bool]:
        """Makes one optimizer step on the mean loss per target token; returns the gradient's norm before clipping, and
        success.

        DDP leaves the mean over ranks of summed losses, and ranks hold different numbers of tokens: so the gradient is
        scaled to the mean over all tokens by world / items. If the norm or the loss, both sums over all ranks, is not
        finite, no rank updates anything: weights, optimizer and average stay as they are, and the schedule continues.
        """
        scale = self.ranks.world / (items * self.progress.loss_scale.value)
        norm = clip(self.parameters, scale, self.config.optimizer.clip_norm)
        finite = math.isfinite(norm) and math.isfinite(loss)
        if finite:
            for group in self.optimizer.param_groups:
                group["lr"] = lr
            self.optimizer.step()
            if self.average:
                self.average.update(self.progress.step)
        self.optimizer.zero_grad(set_to_none=self.ranks.world == 1)  # DDP's buckets are views of the gradients: keep
        return norm, finite

    def _validate(self) -> tuple[float, int]:
        """Returns the validation loss and its tokens, and takes the time of a pass."""
        began = time.monotonic()
        measured = validation_loss(self.network, self._plain_loss, self.held_out(), self.config.precision, self.ranks)
        self.one_pass = time.monotonic() - began
        return measured

    def evaluate(self) -> dict[str, float]:
        """Returns validation loss (nats per token), perplexity and, when due, BLEU; settles early stopping."""
        config, progress = self.config, self.progress
        loss, items = self._validate()
        metrics = {"valid_loss": loss, "valid_perplexity": math.exp(min(loss, 50.0)), "valid_items": items}
        wants_bleu = config.early_stopping.metric == "bleu" or (
            config.bleu_every and progress.step % config.bleu_every == 0
        )
        if self.bleu is not None and wants_bleu:
            metrics["valid_bleu"] = self.bleu()
        metric = "bleu" if config.early_stopping.metric == "bleu" else "loss"
        value = -metrics["valid_bleu"] if metric == "bleu" else loss
        if metric != progress.best_metric and progress.best_step:  # a resumed run may watch another one
            progress.best, progress.waited = None, 0
        if math.isfinite(value) and (progress.best is None or value < progress.best):
            progress.best, progress.best_metric, progress.best_step, progress.waited = value, metric, progress.step, 0
        else:
            progress.waited += 1
        if config.early_stopping.metric != "none" and progress.waited >= config.early_stopping.patience:
            progress.stopped = f"no better validation {metric} in {progress.waited} evaluations"
        return metrics

    def save(self, publish: Publisher, keep_weights: bool) -> None:
        """Saves everything that an exact resume needs. All ranks call it, rank 0 writes.

        `keep_weights`: the final model may average these weights.
        """
        lanes = self.ranks.gather(self.loader.state())
        carried = self.ranks.gather(export_state(self.network))
        if self.ranks.first:
            progress = self.progress
            tensors = {"network": distinct_weights(self.network), "optimizer": self._optimizer_tensors()}
            if self.average:
                tensors["average"] = dict(self.average.items())
            if any(carried):
                tensors["carried"] = {lane: state for of_rank in carried for lane, state in of_rank.items()}
            state = {
                **vars(progress),
                "loss_scale": vars(progress.loss_scale),
                "limit": vars(progress.limit),
                "loader": {lane: position for of_rank in lanes for lane, position in of_rank.items()},
                "limits": limits(self.config),
            }
            choose = kept_weights(self.config, progress.best_step)
            publish.checkpoint(progress.step, tensors, state, self.config.keep_checkpoints, choose, keep_weights)
        publish.saved()

    def resume(self, publish: Publisher) -> None:
        """Loads the newest checkpoint that rank 0 sees, if there is one."""
        newest = publish.resume()
        if newest is None:
            return
        last_checkpoint, tensors, state = newest
        fill(self.network, tensors["network"], str(last_checkpoint))
        names = dict(self.network.named_parameters())
        for name, parameter in names.items():
            members = {k.rsplit("/", 1)[1]: v for k, v in tensors["optimizer"].items() if k.rsplit("/", 1)[0] == name}
            device = parameter.device
            self.optimizer.state[parameter] = {key: value.to(device) for key, value in members.items()}
        if self.average:
            for (_, held), name in zip(self.average.items(), names, strict=True):
                held.copy_(tensors["average"][name])
        self.loader.load_state(state.pop("loader"))
        own = range(self.ranks.rank, self.lanes, self.ranks.world)
        restore_state(self.network, tensors.get("carried", {}), own, self.ranks.device)
        state["limit"], state["loss_scale"] = kept_limit(state, self.config), LossScale(**state["loss_scale"])
        state.pop("limits")
        state["stopped"] = ""  # whoever restarts a stopped run has moved its limits
        self.progress = Progress(**state)
        if self.progress.limit.steps:
            self.config, self.time_limit = limited(self.config, self.progress.limit), None

    def _optimizer_tensors(self) -> dict[str, Tensor]:
        states = self.optimizer.state
        names = self.network.named_parameters()
        return {f"{name}/{key}": value for name, p in names for key, value in states[p].items()}

    def _distributed(self) -> nn.Module:
        if self.ranks.world == 1:
            return self.objective
        devices = [self.ranks.device.index] if self.ranks.device.type == "cuda" else None
        with warnings.catch_warnings():
            # torch 2.13 renames broadcast_buffers; torch 2.11 knows the old name only
            warnings.simplefilter("ignore", FutureWarning)
            return nn.parallel.DistributedDataParallel(
                self.objective, device_ids=devices, broadcast_buffers=False, gradient_as_bucket_view=True
            )


class Mean:
    """Loss and nll per target token over the steps since the last call; steps without a finite loss are skipped."""

    def __init__(self) -> None:
        self._loss = self._nll = self._items = 0.0

    def add(self, loss: float, nll: float, items: float) -> None:
        """Adds the sums of a step."""
        if math.isfinite(loss) and math.isfinite(nll):
            self._loss, self._nll, self._items = self._loss + loss, self._nll + nll, self._items + items

    def take(self) -> dict[str, float]:
        """Returns the means and starts anew; empty if no step was finite."""
        items = self._items
        values = {"loss": self._loss / items, "nll": self._nll / items} if items else {}
        self._loss = self._nll = self._items = 0.0
        return values


def limits(config: TrainConfig) -> dict[str, Any]:
    """Returns what may stop a run before `max_steps`, as plain values."""
    return {"max_minutes": config.max_minutes, "early_stopping": vars(config.early_stopping)}
