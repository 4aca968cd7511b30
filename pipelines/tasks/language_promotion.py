"""How two versions of a language model are compared for a promotion: the likelihood of the same held-out text."""

import tempfile
from pathlib import Path

from model.bundles.language import load_text_bundle
from model.errors import UserError
from pipelines.evaluation.language.comparison import compare
from pipelines.evaluation.language.evaluation import TextEvaluation, evaluate_text_bundle
from pipelines.tracking.promotion import Comparison, PromoteConfig
from pipelines.tracking.registry import Registry, Version

METRICS = ("auto", "likelihood")


def compare_texts(
    registry: Registry, candidate: Version, champion: Version, config: PromoteConfig, shards: Path
) -> Comparison:
    """The candidate against the champion on a held-out split of `shards`.

    Raises:
        UserError: a metric of other models, no such split, versions that cannot be compared.
    """
    if config.metric not in METRICS:
        raise UserError(
            f"promote.metric={config.metric}: language models are compared by the likelihood of a text. "
            f"Choices: {', '.join(METRICS)}"
        )
    baseline, ours = (measure(registry, version, config.split, shards) for version in (champion, candidate))
    found = compare(baseline, ours, config.samples)
    return Comparison(
        found.metric,
        found.candidate,
        found.baseline,
        found.p_value,
        found.records,
        "records",
        lower_is_better=True,
        digits=4,
    )


def measure(registry: Registry, version: Version, split: str, shards: Path) -> TextEvaluation:
    """A version's evaluation; nothing of a download stays behind."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = load_text_bundle(registry.bundle(version, Path(folder)))
        return evaluate_text_bundle(bundle, shards, split, samples=0)
