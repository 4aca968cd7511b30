"""`verify.recompute`: trains intervals between two checkpoints of a run again and compares the results.

On the same kind of machine and with one process, the weights agree bit for bit. Elsewhere, or if several processes
summed their gradients, rounding differs and grows: then losses and weights must agree within NOISE.
"""

import math
import random
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.model.device import machine, pick_device
from dragoman.model.errors import UserError
from dragoman.model.runs import checkpoints, paths
from dragoman.model.runs.record import PLANS
from dragoman.model.word_vectors.batched import torch_threads
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.tasks.base import task_for
from dragoman.pipelines.tasks.run import Run
from dragoman.pipelines.tracking.server import TrackingConfig
from dragoman.pipelines.training import checkpoint
from dragoman.pipelines.training.verification import NETWORK, Check, DifferenceError, check, read_lines

NOISE = 0.02  # of a step's loss, and of the distance that the weights moved: rounding over a few hundred steps
ROUNDED = 1e-6  # of a loss, as rounded in the journal
NEVER = 10**9


def check_recomputed(config: Config, record: Mapping[str, Any], chosen_intervals: str) -> Check:
    """Trains the intervals that `chosen_intervals` names again: LAST, ALL or a number of random ones."""
    chosen = choose(intervals(config.run_dir), chosen_intervals)
    if "train" not in record:
        raise UserError(
            f"verify.recompute={chosen_intervals}: word vectors have no interval that one process trains again"
        )
    if not chosen:
        return Check("again", "not recorded", "no two checkpoints of a network that an interval lies between")
    return check("again")(lambda: "; ".join(_compare(config, record, *steps) for steps in chosen))()


def intervals(run: Path) -> list[tuple[int, int]]:
    """Returns (first, last) of all neighbouring checkpoints; 0 if the steps from the beginning are still in one."""
    steps = [step for step, path in checkpoints.every(run).items() if (path / NETWORK).is_file()]
    lines = [int(line["step"]) for _, line in read_lines(run / paths.STEPS) if "batch" in line]
    first = [0] if steps and lines and lines[0] == 1 else []
    return list(pairwise([*first, *steps]))


def choose(every: Sequence[tuple[int, int]], interval_text: str) -> list[tuple[int, int]]:
    """Returns the intervals that `verify.recompute` asks for."""
    if interval_text.upper() in ("LAST", "ALL"):
        return list(every[-1:] if interval_text.upper() == "LAST" else every)
    if not interval_text.isdecimal() or not int(interval_text):
        raise UserError(
            f"verify.recompute={interval_text}: choices are LAST, ALL and a number of random intervals from 1 on"
        )
    return sorted(random.SystemRandom().sample(every, min(int(interval_text), len(every))))


def _compare(config: Config, record: Mapping[str, Any], begin: int, end: int) -> str:
    """Trains an interval again and returns how it compares. Raises DifferenceError: the result differs."""
    run, named, device = config.run_dir, f"steps {begin + 1:,} to {end:,}", pick_device(config.cluster.device)
    starts, here = _starts_of(run, begin, end), machine(device)
    threads = {int(start.get("threads", 0)) for start in starts}
    exact = len(threads) == 1 and all(start.get("machine") == here and start["workers"] == 1 for start in starts)
    with tempfile.TemporaryDirectory() as folder, torch_threads(threads.pop() if exact else 0):
        again = Path(folder) / run.name
        _begin(run, again, begin)
        changes = [int(plan["from_step"]) for plan in record.get(PLANS, []) if begin < int(plan["from_step"]) < end]
        for stop in (*changes, end):
            settings = _settings(config, record, again, checkpoints.newest_step(again), stop)
            task_for(settings.model).train_rank(settings, Ranks(0, 1, device), Run.of(settings))
        _compare_losses(run, again, begin, end, ROUNDED if exact else NOISE)
        theirs, ours = (checkpoint.read(checkpoints.every(where)[end])[0] for where in (run, again))
        before = checkpoint.read(checkpoints.every(run)[begin])[0]["network"] if begin else None
    if exact:
        _compare_bits(named, theirs, ours)
        return f"{named}: every bit"
    _compare_way(named, before, theirs["network"], ours["network"])
    return f"{named}: losses within {NOISE:.0%} (not bit by bit: another kind of machine, or several workers)"


def _starts_of(run: Path, begin: int, end: int) -> list[dict[str, Any]]:
    """Returns the starts that trained a step of the interval."""
    starts = [start for _, start in read_lines(run / paths.STARTS)]
    start_lines = []
    for place, start in enumerate(starts):
        until = min([int(later["step"]) for later in starts[place + 1 :]], default=end)
        if max(begin, int(start["step"])) < min(end, until):
            start_lines.append(start)
    return start_lines


def _begin(run: Path, again: Path, step: int) -> None:
    """Creates the folder of a run that continues after `step` as `run` did."""
    again.mkdir(parents=True)
    for name in (paths.RECORD, *paths.BEGINNING):
        if (run / name).is_file():
            shutil.copyfile(run / name, again / name)
    if step:
        beginning = checkpoints.every(run)[step]
        shutil.copytree(beginning, again / paths.CHECKPOINTS / beginning.name)


def _settings(config: Config, record: Mapping[str, Any], again: Path, begin: int, end: int) -> Config:
    """Returns the run's configuration to train from `begin` to `end`, and leave one checkpoint."""
    plans = [int(plan["schedule_steps"]) for plan in record.get(PLANS, []) if int(plan["from_step"]) <= begin]
    train = replace(
        config.train,
        schedule_steps=plans[-1] if plans else 0,
        max_steps=end,
        evaluate_every=NEVER,
        checkpoint_every=NEVER,
        checkpoint_minutes=0.0,
        final_weights="last",
    )
    return replace(
        config,
        name=again.name,
        paths=replace(config.paths, runs=str(again.parent)),
        train=train,
        tracking=TrackingConfig(offline=True, system_metrics=False),
    )


def _compare_losses(run: Path, again: Path, begin: int, end: int, tolerance: float) -> None:
    """Raises DifferenceError for the first step of the interval with another loss."""
    theirs, ours = (
        {int(line["step"]): line["loss"] for _, line in read_lines(where / paths.STEPS) if "batch" in line}
        for where in (run, again)
    )
    for step in range(begin + 1, end + 1):
        loss, other = theirs.get(step), ours.get(step)
        same = loss == other if loss is None or other is None else math.isclose(loss, other, rel_tol=tolerance)
        if not same:
            raise DifferenceError(f"step {step:,}: trained again its loss is {other}, the journal has {loss}")


def _compare_bits(named: str, theirs: Mapping[str, Mapping[str, Tensor]], ours: Mapping[str, Any]) -> None:
    """Raises DifferenceError for the first tensor that differs."""
    for group, tensors in theirs.items():
        for name, value in tensors.items():
            own_bits = ours.get(group, {}).get(name)
            if own_bits is None or not torch.equal(value, own_bits):
                raise DifferenceError(f"{named}: trained again, {name} of {group}.safetensors comes out otherwise")


def _compare_way(
    named: str, before: Mapping[str, Tensor] | None, theirs: Mapping[str, Tensor], ours: Mapping[str, Tensor]
) -> None:
    """Raises DifferenceError if the weights differ by more than NOISE of the distance that they moved."""

    if theirs.keys() != ours.keys():
        raise DifferenceError(f"{named}: trained again, there are other weights")
    way = _norm(value.double() - before[name].double() if before else value for name, value in theirs.items())
    distance = _norm(value.double() - ours[name].double() for name, value in theirs.items())
    if distance > NOISE * way:
        raise DifferenceError(f"{named}: trained again, the weights come out {distance / way:.1%} of their way apart")


def _norm(tensors: Iterable[Tensor]) -> float:
    return math.sqrt(sum(float(tensor.double().square().sum()) for tensor in tensors))
