"""Promotes models by their evaluations of a held-out split."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import open_bundle
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.base import SplitEvaluation
from dragoman.pipelines.evaluation.held_out import gate_split, held_out_lines
from dragoman.pipelines.settings import EvaluateConfig
from dragoman.pipelines.tasks.base import Judge, compared
from dragoman.pipelines.tracking.gate import set_name
from dragoman.pipelines.tracking.promotion import Comparison
from dragoman.pipelines.tracking.registry import Registry, Version


def judge_by_split(
    metrics: Sequence[str],
    compared_by: str,
    evaluate: Callable[[Config, Any], SplitEvaluation],
    sides: Callable[[SplitEvaluation], Sequence[str]],
) -> Judge:
    """Returns a task's `judge`: it compares the candidate with the champion by a held-out split of the shards.

    `metrics` are the choices of `promote.metric`, and `compared_by` says what they compare. `evaluate` is the task's.
    The lines of `sides` make the held-out set.
    """

    def judge(config: Config, registry: Registry, candidate: Version, champion: Version | None) -> Comparison:
        settings = config.promote
        if settings.metric not in metrics:
            raise UserError(f"promote.metric={settings.metric}: {compared_by}. Choices: {', '.join(metrics)}")
        split = gate_split(config.shard_dir, settings.split)
        on_split = replace(config, evaluate=EvaluateConfig(split=split, samples=0))

        def measure(version: Version) -> SplitEvaluation:
            with tempfile.TemporaryDirectory() as folder:
                return evaluate(on_split, open_bundle(registry.bundle(version, Path(folder))))

        ours = measure(candidate)
        name, baseline = ("", measure(champion)) if champion else ours.floor()
        gate = set_name([line for side in sides(ours) for line in held_out_lines(config.shard_dir, split, side)])
        return compared(ours.compare(baseline, settings.samples), digits=4, gate=gate, floor=name, of=split)

    return judge
