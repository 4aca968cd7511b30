"""`train.max_minutes`, the time of a whole command, as a number of steps.

The number is known when the speed of a step is: from then on warm-up, decay, evaluations and checkpoints follow it.
It is corrected a few times where the speed has changed. A run that is resumed keeps its number.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dragoman.pipelines.settings import TrainConfig

DECIDE, LATEST = 0.03, 0.15  # parts of the time after which the number is decided: by `ENOUGH` steps, by `FEW`
CORRECT = (0.2, 0.4, 0.6, 0.8)  # parts of the training's time after which it is corrected
SLOW, FEW, ENOUGH = 2, 3, 8  # the first steps, which prepare buffers; how many decide
ALIKE = 0.05  # a correction by a smaller part is none
SPARE = 0.03  # part of the time that is not planned
EVALUATING = 0.05  # part of the time for evaluations
MOST_RELEASE = 0.5  # part of the time after the start: what has learned too little to end its sentences takes long
FIXED = 12.0  # seconds, at least, of imports before `began` and of a release that do not depend on the texts


@dataclass
class Limit:
    """The number of steps that a time limit allows and the settings that follow, stored in checkpoints."""

    steps: int = 0  # the last step; 0: not decided
    seconds: float = 0.0  # of training, over all starts, after which the run ends where it is
    release: float = 0.0  # seconds that are kept for evaluation and release
    settings: dict[str, int] = field(default_factory=dict)  # of `TrainConfig` and its optimizer, where it ends early


def kept_limit(state: Mapping[str, Any], config: TrainConfig) -> Limit:
    """Returns the limit in a checkpoint's state; an undecided one if `train.max_minutes` was another."""
    same = state["limits"]["max_minutes"] == config.max_minutes
    return Limit(**state.get("limit", {})) if same else Limit()


def limited(config: TrainConfig, limit: Limit) -> TrainConfig:
    """Returns the settings as the limit has them."""
    warmup = limit.settings.get("warmup_steps", config.optimizer.warmup_steps)
    rest: dict[str, Any] = {key: value for key, value in limit.settings.items() if key != "warmup_steps"}
    return replace(config, optimizer=replace(config.optimizer, warmup_steps=warmup), **rest)


def in_proportion(config: TrainConfig, steps: int, fewest: int) -> dict[str, int]:
    """Returns the settings of a run that ends at `steps`: everything is shorter in proportion.

    `fewest`: the fewest steps between two evaluations.
    """
    share = steps / config.max_steps

    def scaled(value: int) -> int:
        return max(1, round(share * value)) if value else 0

    checkpoint = scaled(config.checkpoint_every)
    evaluate = max(scaled(config.evaluate_every), fewest)
    if config.evaluate_every % config.checkpoint_every == 0:  # evaluated weights are kept
        evaluate = checkpoint * max(1, round(evaluate / checkpoint))
    return {
        "max_steps": steps,
        "schedule_steps": min(config.schedule_steps or steps, steps),
        "warmup_steps": scaled(config.optimizer.warmup_steps),
        "checkpoint_every": checkpoint,
        "evaluate_every": evaluate,
        "bleu_every": evaluate * (config.bleu_every // config.evaluate_every),
    }


@dataclass
class TimeLimit:
    """The clock of one command. Every rank asks `is_due` alike, and the first one decides for all."""

    minutes: float
    began: float  # the command, by `clock`
    passes: float  # the work of evaluation and release, in passes over the validation set
    clock: Callable[[], float] = time.time
    # step and seconds of training: at the first call, and from which on a step's time is taken
    _start: tuple[int, float] | None = None
    _timed_from: tuple[int, float] | None = None
    # parts of the time at which the number is still to be decided or corrected
    _parts_left: list[float] = field(default_factory=lambda: [DECIDE, *CORRECT])

    def left(self) -> float:
        """Returns the seconds of training, from now on, in which the number of steps must be decided.

        0: fewer than that takes.
        """
        total = 60 * self.minutes
        left = (1 - MOST_RELEASE) * (total - (self.clock() - self.began))
        return left if left > DECIDE * total else 0.0

    def is_due(self, limit: Limit, step: int, seconds: float) -> bool:
        """Returns True if the number of steps must be decided or corrected now, at `seconds` of training."""
        self._start = self._start or (step - 1, seconds)
        steps, passed = step - self._start[0], self._passed(limit, seconds)
        if self._timed_from is None or steps <= SLOW:
            self._timed_from = (step, seconds)
        if not self._parts_left or step - self._timed_from[0] < FEW:
            return False
        return passed >= self._parts_left[0] and (steps >= ENOUGH or passed >= LATEST)

    def decide(self, config: TrainConfig, limit: Limit, step: int, seconds: float, one_pass: float) -> Limit:
        """Returns the limit by the speed of the steps since the last decision; the first rank's is everybody's.

        `one_pass`: the seconds of a pass over the validation set.
        """
        assert self._timed_from is not None, "is_due before decide"
        passed, first = self._passed(limit, seconds), not limit.steps
        self._parts_left = [check for check in self._parts_left[1:] if first or check > passed]
        a_step = (seconds - self._timed_from[1]) / max(1, step - self._timed_from[0])
        self._timed_from = None
        total = 60 * self.minutes
        gone = self.clock() - self.began
        start = gone - (seconds - self._start_seconds)  # of the workers: a busy machine is as slow at the end
        release = min(max(FIXED, start) + self.passes * one_pass, MOST_RELEASE * max(0.0, total - start))
        left = total - gone - release
        most = max(1, int(EVALUATING * total / max(one_pass, 1e-9)))  # evaluations
        expected = min(most, config.max_steps // config.evaluate_every + 1) * one_pass if first else 0.0
        steps = step + int(max(0.0, left - SPARE * total - expected) / max(a_step, 1e-9))
        steps = max(step, min(steps, config.max_steps))
        if limit.steps and abs(steps - limit.steps) <= ALIKE * limit.steps:
            steps = max(step, limit.steps)
        settings = in_proportion(config, steps, -(-steps // most)) if steps < config.max_steps else {}
        return Limit(steps, seconds + max(0.0, left), release, settings)

    def _passed(self, limit: Limit, seconds: float) -> float:
        """Returns the part of the time that has passed: of the training's as soon as that is known."""
        start = self._start_seconds
        return (seconds - start) / (limit.seconds - start if limit.seconds > start else 60 * self.minutes)

    @property
    def _start_seconds(self) -> float:
        return self._start[1] if self._start else 0.0
