"""`dragoman evaluate` of language models: likelihood of a held-out text, samples, and other models on the same text.

dragoman evaluate evaluate.bundle=RUN evaluate.split=valid
dragoman evaluate evaluate.bundle=RUN evaluate.against=OTHER_RUN
"""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from model.bundles.language import load_text_bundle
from pipelines.evaluation.language.comparison import compare
from pipelines.evaluation.language.evaluation import (
    TextEvaluation,
    evaluate_text_bundle,
    report,
    write_text_evaluation,
)

if TYPE_CHECKING:
    from pipelines.config import Config  # it imports this module's caller

logger = logging.getLogger(__name__)


def task(config: "Config", directory: Path, rivals: Sequence[str], locate: Callable[[str], Path]) -> int:
    """Evaluate, print, and keep the record beside the bundle; compare with `rivals`, which `locate` finds."""
    evaluation = evaluate(config, directory)
    print(report(evaluation))
    logger.info(f"kept in {write_text_evaluation(evaluation, directory.parent)}")
    for rival in rivals:
        other = evaluate(config, locate(rival))
        print("", compare(other, evaluation, config.evaluate.bootstrap), sep="\n")
    return 0


def evaluate(config: "Config", directory: Path) -> TextEvaluation:
    """`evaluate_text_bundle` by the section `evaluate`."""
    settings = config.evaluate
    return evaluate_text_bundle(
        load_text_bundle(directory),
        config.shard_dir,
        settings.split,
        stride=settings.stride,
        records=settings.sentences,
        samples=settings.samples,
    )
