"""The number format of a run: as the user asked, or with `train.precision=auto` by the first rank's processor.

It is decided once, on the training machine, and stored in RUN/precision.json: a resumed run keeps it.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch import nn

from dragoman.model.device import pick_device
from dragoman.model.errors import UserError
from dragoman.model.files import atomic_write
from dragoman.model.precision import Decision, cannot_run, decide
from dragoman.model.runs.paths import PRECISION, begun
from dragoman.model.runs.record import read, read_record
from dragoman.model.settings import Precision
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.settings import TrainConfig
from dragoman.pipelines.tracking.run import TrackedRun


def settle_precision(config: Config, network: nn.Module, ranks: Ranks, tracked: TrackedRun | None) -> TrainConfig:
    """Returns the section `train` with one precision for all ranks; `tracked` is rank 0's record."""
    settled = begun_in(config) if ranks.first else None
    decision = ranks.from_first((settled or decide(network, ranks.device)) if ranks.first else None)
    if reason := cannot_run(network, decision.precision, ranks.device):
        raise precision_error(config, decision.precision, reason)
    if ranks.first and settled is None:
        atomic_write(config.run_dir / PRECISION, json.dumps(asdict(decision), indent=2))
    if tracked:
        tracked.tags({"precision": decision.precision, "precision.because": decision.because})
    return replace(config.train, precision=decision.precision)


def begun_in(config: Config) -> Decision | None:
    """Returns the run's precision: decided before, requested now, or requested when it began; None: undecided."""
    kept = read(config.run_dir / PRECISION)
    if kept is not None:
        return Decision(**kept)
    precision, because = config.train.precision, f"train.precision={config.train.precision}"
    identity = read_record(config.run_dir)
    if precision == "auto" and identity is not None:
        precision = identity["train"]["precision"]
        because = f"the run began with train.precision={precision}"
    return None if precision == "auto" else Decision(precision, because)


def read_precision(run: Path) -> str | None:
    """Returns the precision of a run that has decided it; else None."""
    kept = read(run / PRECISION)
    return None if kept is None else str(kept["precision"])


def refuse_unrunnable(config: Config, network: nn.Module) -> None:
    """Reports, before any worker starts, what this machine cannot run, if this machine trains."""
    elsewhere = config.cluster.address is not None or (
        config.cluster.device == "cuda" and not torch.cuda.is_available()
    )
    if config.train.precision == "auto" or elsewhere:
        return
    reason = cannot_run(network, config.train.precision, pick_device(config.cluster.device))
    if reason:
        raise precision_error(config, config.train.precision, reason)


def precision_error(config: Config, precision: Precision, reason: str) -> UserError:
    """Returns the error for a `precision` that does not run; a run that began in it cannot change it."""
    remedy = (
        "Choices: auto, fp32"
        if config.train.precision == precision and not begun(config.run_dir)
        else f"The run {config.name} began in it: go on where it runs, or choose another name= to begin in another"
    )
    return UserError(f"train.precision={precision}: {reason}. {remedy}")
