"""Chooses a network's final weights: the newest, their moving average, the best validated, or a mean of several.

The best are those of the evaluation with the lowest validation loss, or the highest BLEU if early stopping uses that.
`train.average_last` kept weights around the best are averaged, with the best in the middle if there are enough on both
sides; otherwise more of them come before it.

A mean excludes weights older than the share `train.average_share` of the steps: the last checkpoints of a short run
reach back to a time when its weights were far away.

`train.average_first` then averages what a fine-tuning ends with and what it began with, so that it forgets less
(Wortsman et al. 2022, WiSE-FT).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from dragoman.model.errors import UserError
from dragoman.model.files import file_sha256
from dragoman.model.layers.low_rank import merged
from dragoman.model.runs import checkpoints
from dragoman.model.runs.paths import FIRST_WEIGHTS
from dragoman.pipelines.settings import TrainConfig
from dragoman.pipelines.training import checkpoint


def final_weights(run: Path, config: TrainConfig) -> tuple[dict[str, Tensor], list[int]]:
    """Returns the weights that `train.final_weights` asks for, and the steps that they come from.

    Low-rank factors (`train.lora`) are merged into the weights that they change before the mean.

    Raises UserError: the run has no checkpoint yet, has not kept its best weights, or a file is damaged.
    """
    if config.final_weights in ("last", "ema"):
        tensors, state = checkpoint.read(checkpoints.last(run))
        weights, steps = merged(tensors["average" if config.final_weights == "ema" else "network"]), [state["step"]]
    else:
        chosen = chosen_weights(run, config)
        weights, steps = checkpoint.average(list(chosen.values())), list(chosen)
    return with_first(run, weights, config.average_first), steps


def with_first(run: Path, weights: dict[str, Tensor], share: float) -> dict[str, Tensor]:
    """Returns the weights averaged with those that the run began with, which have this share."""
    first = load_file(run / FIRST_WEIGHTS) if share else {}
    return {**weights, **{name: weights[name].lerp(first[name], share) for name in weights.keys() & first}}


def keep_last(run: Path, step: int) -> None:
    """Keeps the weights of the checkpoint of a run's last step for the mean, if a signal or the clock made it: a run
    that was never stopped would have kept them."""
    if step not in checkpoints.weights_by_step(run):
        checkpoint.keep_weights(run, checkpoints.folder(run, step), step)


def chosen_weights(run: Path, config: TrainConfig) -> dict[int, Path]:
    """Returns step -> kept weights, of which the final ones are the mean."""
    kept = checkpoints.weights_by_step(run)
    if not kept:
        newest = checkpoints.newest_step(run)
        raise UserError(
            f"{run}: no weights to average: "
            + (
                f"its only weights are those of step {newest:,}, where it was stopped. train.max_steps={newest} ends "
                f"it there, train.final_weights=last releases them as they are, and a higher train.max_steps goes on"
                if newest
                else "the run has not reached its first checkpoint"
            )
        )
    if config.final_weights == "average":
        last = list(kept)[-config.average_last :]
        return {step: kept[step] for step in not_too_old(last, last[-1], config.average_share)}
    best = checkpoints.state(checkpoints.last(run)).get("best_step", 0)
    if best not in kept:
        cause = f"those of step {best:,} were not kept" if best else "no evaluation has told which are the best"
        raise UserError(
            f"train.final_weights={config.final_weights}: {cause} in {run}. A run that is to end with its best weights "
            f"is started so, or with train.early_stopping. Choices for this one: average, last"
        )
    if config.final_weights == "best":
        return {best: kept[best]}
    near = round_best(list(kept), best, config.average_last)
    return {step: kept[step] for step in not_too_old(near, best, config.average_share)}


def kept_weights(config: TrainConfig, best: int) -> Callable[[list[int]], Collection[int]]:
    """Returns the steps whose weights a run must keep, of those that it has: the last ones, and the best ones if they
    may be asked for. `best`: the step of the best evaluation so far; 0: none."""
    is_needed = config.final_weights in ("best", "best_average") or config.early_stopping.metric != "none"
    count = config.average_last if config.final_weights == "best_average" else 1

    def wanted(steps: list[int]) -> Collection[int]:
        near = round_best(steps, best, count) if is_needed and best in steps else []
        return {*steps[-config.average_last :], *near}

    return wanted


def round_best(steps: Sequence[int], best: int, count: int) -> Sequence[int]:
    """Returns `best` and its neighbours among the rising `steps`, `count` if there are so many.

    The result is the same for all steps of a run and for the steps left when, after each step, only the result and the
    last `count` were kept.
    """
    first = min(steps.index(best) - count // 2, len(steps) - count)
    return steps[max(0, first) :][:count]


def not_too_old(steps: Sequence[int], end: int, share: float) -> list[int]:
    """Returns those of `steps` within the last `share` of the steps up to `end`, and all later ones."""
    return [step for step in steps if end - step <= share * end]


def weights_hashes(run: Path, config: TrainConfig) -> list[str]:
    """Returns the sha256 of the files that the final weights come from."""
    if config.final_weights in ("last", "ema"):
        files = [checkpoints.last(run) / f"{'average' if config.final_weights == 'ema' else 'network'}.safetensors"]
    else:
        files = list(chosen_weights(run, config).values())
    first = [f"{config.average_first:g} of {file_sha256(run / FIRST_WEIGHTS)}"] if config.average_first else []
    return [*map(file_sha256, files), *first]


def weights_facts(run: Path, config: TrainConfig, steps: list[int]) -> dict[str, Any]:
    """Returns the same for a bundle's facts."""
    return {"from": config.final_weights, "steps": steps, "sha256": weights_hashes(run, config)}


def stored_weights(facts: Mapping[str, Any]) -> list[str]:
    """Returns the `weights_hashes` of the time when the bundle with these facts was made."""
    return list(dict(facts.get("weights") or {}).get("sha256", []))
