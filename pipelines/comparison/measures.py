"""Measures of a compared network, from its evaluation and the journal of its training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from dragoman.model.bundles.directory import Bundle
from dragoman.model.runs import journal, paths
from dragoman.pipelines.evaluation.base import SplitEvaluation

PAUSE = 5.0  # a step this many times longer than usual includes an evaluation, a checkpoint or a start


@dataclass
class TrainingRecord:
    """A finished training."""

    tokens: int  # target tokens
    minutes: float  # with evaluations and checkpoints
    tokens_per_second: float  # without them
    validation: list[tuple[int, float, float]] = field(default_factory=list)  # (target tokens, minutes, nats per token)


@dataclass(frozen=True)
class Measured:
    """One network of a comparison."""

    label: str
    bundle: Bundle
    parameters: int
    evaluation: SplitEvaluation
    training: TrainingRecord | None  # None: its journal is not beside the bundle


def training_record(run: Path) -> TrainingRecord | None:
    """Returns the record of a run's directory; None if it has no journal of a network."""
    lines = list(journal.lines(run / paths.STEPS))
    steps = [line for line in lines if "nll" in line and "tokens" in line]
    if not steps:
        return None
    validation, tokens = [], 0
    for line in lines:
        if "valid_loss" in line:
            validation.append((tokens, line["seconds"] / 60, float(line["valid_loss"])))
        else:
            tokens += int(line.get("tokens", 0))
    return TrainingRecord(
        tokens=tokens, minutes=float(lines[-1]["seconds"]) / 60, tokens_per_second=speed(steps), validation=validation
    )


def speed(steps: Sequence[Mapping[str, Any]]) -> float:
    """Returns target tokens per second of consecutive journal lines, without steps after a pause; 0 if too few."""
    pairs = [
        (float(after["seconds"]) - float(before["seconds"]), int(after["tokens"]))
        for before, after in pairwise(steps)
        if after["step"] == before["step"] + 1
    ]
    usual = median([seconds for seconds, _ in pairs]) if pairs else 0.0
    kept = [(seconds, tokens) for seconds, tokens in pairs if 0 < seconds <= PAUSE * usual]
    return sum(tokens for _, tokens in kept) / sum(seconds for seconds, _ in kept) if kept else 0.0
