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
from dragoman.pipelines.evaluation.held_out import gate_split
from dragoman.pipelines.evaluation.significance import Significance
from dragoman.pipelines.settings import EvaluateConfig
from dragoman.pipelines.tasks.base import Judge
from dragoman.pipelines.tracking.promotion import Comparison
from dragoman.pipelines.tracking.registry import Registry, Version


def judge_by_split(
    metrics: Sequence[str], compared_by: str, evaluate: Callable[[Config, Any], SplitEvaluation]
) -> Judge:
    """Returns a task's `judge`: it compares the candidate with the champion by a held-out split of the shards.

    `metrics` are the choices of `promote.metric`, and `compared_by` says what they compare. `evaluate` is the task's.
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
        return compared(ours.compare(baseline, settings.trials), digits=4, floor=name, of=split)

    return judge


def compared(test: Significance, **more: Any) -> Comparison:
    """Returns what a promotion asks of a test."""
    sizes = test.items, test.unit, test.lower_is_better
    return Comparison(test.metric, test.candidate, test.baseline, test.p_value, *sizes, **more)
