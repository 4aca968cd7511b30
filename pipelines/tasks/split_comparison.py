"""Promotes models by their evaluations of a held-out split."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from dragoman.model.errors import UserError
from dragoman.pipelines.evaluation.base import SplitEvaluation
from dragoman.pipelines.evaluation.held_out import gate_split, held_out_lines
from dragoman.pipelines.tasks.base import Judge, compared
from dragoman.pipelines.tracking.gate import set_name
from dragoman.pipelines.tracking.promotion import Comparison, PromoteConfig
from dragoman.pipelines.tracking.registry import Registry, Version
from dragoman.pipelines.word_vectors.settings import EvaluateVectors


def judge_by_split(
    metrics: Sequence[str],
    compared_by: str,
    measure: Callable[[Path, Path, str], SplitEvaluation],
    sides: Callable[[SplitEvaluation], Sequence[str]],
) -> Judge:
    """Returns a task's `judge`: it compares the candidate with the champion by a held-out split of the shards.

    `metrics` are the choices of `promote.metric`, and `compared_by` says what they compare. `measure` evaluates a
    bundle's folder on a split of shards. The lines of `sides` make the held-out set.
    """

    def measure_version(registry: Registry, version: Version, shards: Path, split: str) -> SplitEvaluation:
        with tempfile.TemporaryDirectory() as folder:
            return measure(registry.bundle(version, Path(folder)), shards, split)

    def judge(
        registry: Registry,
        candidate: Version,
        champion: Version | None,
        config: PromoteConfig,
        shards: Path,
        _sets: EvaluateVectors,
    ) -> Comparison:
        if config.metric not in metrics:
            raise UserError(f"promote.metric={config.metric}: {compared_by}. Choices: {', '.join(metrics)}")
        split = gate_split(shards, config.split)
        ours = measure_version(registry, candidate, shards, split)
        name, baseline = ("", measure_version(registry, champion, shards, split)) if champion else ours.floor()
        gate = set_name([line for side in sides(ours) for line in held_out_lines(shards, split, side)])
        return compared(ours.compare(baseline, config.samples), digits=4, gate=gate, floor=name, of=split)

    return judge
