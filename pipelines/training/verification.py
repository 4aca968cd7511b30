"""Proves from a run's own records that it trained on the batches of an undisturbed run, with weights as written.

A step's batches depend only on the shards, the seed and the settings. So one process makes them again and compares
them with the journal, whatever happened to the run and on however many workers.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, ParamSpec

from dragoman.model.errors import UserError
from dragoman.model.plural import plural
from dragoman.model.runs import attempts, checkpoints, paths
from dragoman.model.runs.journal import step_digest
from dragoman.model.runs.lines import JournalReader
from dragoman.model.runs.record import PLANS
from dragoman.pipelines.loaders.prefetch import Lanes
from dragoman.pipelines.settings import OptimizerConfig
from dragoman.pipelines.training.optimizer import WITH_AN_END, learning_rate

NETWORK = "network.safetensors"  # of a checkpoint
P = ParamSpec("P")  # of a check
Replay = Generator[tuple[int, int]]  # (digest, tokens) of each step, from the first on


@dataclass(frozen=True)
class Check:
    """The subject of a check, its result, and the figures or the first difference."""

    what: str
    result: Literal["same", "differs", "not recorded"]
    detail: str


class DifferenceError(Exception):
    """The first difference that was found."""


class NotRecordedError(Exception):
    """The run recorded nothing that could be compared."""


def check(what: str) -> Callable[[Callable[P, str]], Callable[P, Check]]:
    """Makes a check of a function that returns the figures of what agrees, and raises what does not."""

    def decorate(find: Callable[P, str]) -> Callable[P, Check]:
        @functools.wraps(find)
        def checked(*args: P.args, **kwargs: P.kwargs) -> Check:
            try:
                return Check(what, "same", find(*args, **kwargs))
            except NotRecordedError as nothing:
                return Check(what, "not recorded", str(nothing))
            except (DifferenceError, UserError) as problem:
                return Check(what, "differs", str(problem))
            except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError) as problem:
                return Check(what, "differs", f"damaged ({problem!r})")

        return checked

    return decorate


def replay_lanes(loader: Lanes[Any]) -> Replay:
    """Yields every step of a loader that has all lanes, without end."""
    with contextlib.closing(loader):
        while True:
            batches = loader.step()
            yield int(step_digest(batch.digest() for batch in batches), 16), sum(batch.items for batch in batches)


def compare_steps(run: Path, replay: Replay | None) -> str:
    """Compares the journal with the batches as made today: none missing, none twice, none different.

    Raises DifferenceError: the first step that is otherwise. Raises NotRecordedError: the run has no digests of its
    batches.
    """
    if replay is None:
        raise NotRecordedError("a model that is counted whole has none")
    with contextlib.closing(replay):
        steps, unrecorded = _compare_steps(run, replay)
    newest = checkpoints.newest_step(run)
    if steps < newest:
        raise DifferenceError(
            f"step {steps + 1:,} is missing: the journal ends before it, and step {newest:,} was kept"
        )
    if unrecorded == steps:
        raise NotRecordedError(f"{steps:,}, without digests: the run is from before there were any")
    before = f" but for the first {unrecorded:,}, which have no digest" if unrecorded else ""
    return f"{steps:,}, each once, their batches as replayed from the shards{before}"


@check("starts")
def check_starts(run: Path, lanes: int | None) -> str:
    """Checks where the run's starts continued, and on how many workers: the first from the beginning, attempts only
    rise, and workers share the lanes."""
    made = attempts.current_attempt(run)
    before = step = 0
    problems: list[str] = []
    for _, start in read_lines(run / paths.STARTS):
        attempt, step, workers = (int(start[key]) for key in ("attempt", "step", "workers"))
        if not before < attempt <= made:
            raise DifferenceError(f"attempt {attempt} after attempt {before}, of {made} that were made")
        if lanes and lanes % workers:
            raise DifferenceError(f"attempt {attempt} on {workers} workers, which cannot share {lanes} lanes")
        if not problems and attempt == 1 and step:
            raise DifferenceError(f"attempt 1 went on after step {step:,}, but nothing was trained before it")
        before = attempt
        problems.append(f"{attempt}: from step {step:,} on {workers}")
    if step > last_step(run):
        raise DifferenceError(f"attempt {before} went on after step {step:,}, which the journal has not got")
    if not problems:
        raise NotRecordedError(f"{made} in all")
    return ", ".join(problems)


@check("weights")
def check_weights(run: Path) -> str:
    """Checks every file of every checkpoint, and the kept weights, against their sha256."""
    by_step, kept, unrecorded = checkpoints.every(run), checkpoints.weights_by_step(run), []
    for step, path in by_step.items():
        checkpoints.check(path)
        if checkpoints.state(path)["step"] != step:
            raise DifferenceError(f"{path}: is of step {checkpoints.state(path)['step']}")
    for step, path in kept.items():
        recorded = checkpoints.recorded_hash(path)
        unrecorded += [step] if recorded is None else []
        if recorded and step in by_step and checkpoints.check(by_step[step]).get(NETWORK) != recorded:
            raise DifferenceError(f"{by_step[step] / NETWORK}: is not the network that was kept as {path}")
    detail = f"{plural(len(by_step), 'checkpoint')}, weights of {plural(len(kept), 'step')}"
    if unrecorded:
        raise NotRecordedError(f"{detail}; no sha256 of those of step {unrecorded[0]:,}")
    return detail


@check("rates")
def check_rates(run: Path, record: Mapping[str, Any]) -> str:
    """Compares the learning rate of every step of the journal with that of run.json's optimizer."""
    values = dict(record.get("train", {})).get("optimizer")
    if values is None:
        raise NotRecordedError("a model without an optimizer")
    optimizer, plans, compared = OptimizerConfig(**values), record.get(PLANS, []), 0
    for number, line in read_lines(run / paths.STEPS):
        if "lr" not in line or "tokens" not in line:
            continue
        step, rate = int(line["step"]), float(line["lr"])
        ends = [int(plan["schedule_steps"]) for plan in plans if int(plan["from_step"]) < step]
        if not ends and optimizer.schedule in WITH_AN_END:
            continue
        planned = learning_rate(optimizer, step, ends[-1] if ends else 0)
        if not math.isclose(rate, planned, rel_tol=1e-6, abs_tol=1e-9):
            raise DifferenceError(
                f"step {step:,}: a learning rate of {rate:g}, where run.json gives {planned:g} ({paths.STEPS}, "
                f"line {number})"
            )
        compared += 1
    if not compared:
        raise NotRecordedError("no step whose rate is known")
    return f"{plural(compared, 'step')}, as run.json's optimizer has them"


def last_step(run: Path) -> int:
    """Returns the last step of the journal; 0 if there is none. Raises DifferenceError: a line of it is damaged."""
    return max((int(line["step"]) for _, line in read_lines(run / paths.STEPS) if "step" in line), default=0)


def _compare_steps(run: Path, replay: Replay) -> tuple[int, int]:
    """Returns (steps of the journal, those at its beginning that have no digest)."""
    step = unrecorded = 0
    for number, line in read_lines(run / paths.STEPS):
        if "tokens" not in line:  # an evaluation, or the end of an epoch
            continue
        try:
            last, tokens = int(line["step"]), int(line["tokens"])
            recorded = "batch" in line
            count = int(line.get("steps", 1 if recorded else last - step))
            digest = int(line["batch"], 16) if recorded else 0
        except (KeyError, TypeError, ValueError):
            raise DifferenceError(f"{paths.STEPS}, line {number}: damaged") from None
        first = last - count + 1
        if first <= step or count < 1:
            raise DifferenceError(f"step {first:,} stands in the journal again, in line {number} after step {step:,}")
        if first > step + 1:
            raise DifferenceError(f"step {step + 1:,} is missing: line {number} follows step {step:,} with {first:,}")
        named = f"step {last:,}" if count == 1 else f"steps {first:,} to {last:,}"
        made = list(islice(replay, count))
        expected, size = (
            sum(sum_of_part for sum_of_part, _ in made) % 2**32,
            sum(size_of_part for _, size_of_part in made),
        )
        if not recorded and unrecorded < step:
            raise DifferenceError(f"{named}: the digest of its batches is missing")
        if recorded and digest != expected:
            raise DifferenceError(f"{named}: other batches than the shards give ({digest:08x}, not {expected:08x})")
        if recorded and tokens != size:
            raise DifferenceError(f"{named}: {tokens:,} tokens, where the shards give {size:,}")
        step, unrecorded = last, unrecorded if recorded else last
    return step, unrecorded


def read_lines(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Returns (number, content) of each whole line; ignores a last one that a kill cut short.

    Raises DifferenceError: a line is damaged.
    """
    reader = JournalReader(path, most=None)
    lines = [(reader.number or 0, line) for line in reader.lines()]
    if reader.notes:
        raise DifferenceError(reader.notes[0])
    return lines
