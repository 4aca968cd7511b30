"""Compares models by their evaluations of a held-out split; each kind gives its own measure and its own test."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dragoman.model.errors import UserError
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.significance import Significance
from dragoman.pipelines.evaluation.translation import gate_split, held_out_lines
from dragoman.pipelines.tasks.base import Judge, Measured, compared
from dragoman.pipelines.tracking.gate import set_name
from dragoman.pipelines.tracking.promotion import Comparison, PromoteConfig
from dragoman.pipelines.tracking.registry import Registry, Version
from dragoman.pipelines.word_vectors.settings import EvaluateVectors

Evaluation = TypeVar("Evaluation")
Test = Callable[[Evaluation, Evaluation, int], Significance]


def compare_rivals(
    evaluate: Callable[[Config, Any], Measured],
    test: Test[Any],
    config: Config,
    measured: Measured,
    rivals: Sequence[Any],
    _directory: Path,
) -> str:
    """Returns a line per rival: both scores, their difference and its probability by chance."""
    tests = (test(evaluate(config, rival).details, measured.details, config.evaluate.bootstrap) for rival in rivals)
    return "\n\n".join(map(str, tests))


def judge_by_split(
    metrics: Sequence[str],
    compared_by: str,
    measure: Callable[[Path, Path, str], Evaluation],
    test: Test[Evaluation],
    floor: Callable[[Evaluation], tuple[str, Evaluation]],
    sides: Callable[[Evaluation], Sequence[str]],
) -> Judge:
    """Returns a task's `judge`: it compares the candidate with the champion by a held-out split of the shards.

    `metrics` are the choices of `promote.metric`, and `compared_by` says what they compare. `measure` evaluates a
    bundle's folder on a split of shards. `floor` names and returns what the first champion has to beat. The lines of
    `sides` make the held-out set.
    """

    def measure_version(registry: Registry, version: Version, shards: Path, split: str) -> Evaluation:
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
        name, baseline = ("", measure_version(registry, champion, shards, split)) if champion else floor(ours)
        gate = set_name([line for side in sides(ours) for line in held_out_lines(shards, split, side)])
        return compared(test(baseline, ours, config.samples), digits=4, gate=gate, floor=name, of=split)

    return judge
