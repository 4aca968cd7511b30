"""How two versions of word vectors are compared for a promotion: the same pairs and questions, over common words."""

import tempfile
from pathlib import Path

from model.bundles.vectors import load_vectors
from model.errors import UserError, unknown
from model.word_vectors.embeddings import Embeddings
from pipelines.evaluation.word_vectors.comparison import METRICS, Metric, significance
from pipelines.evaluation.word_vectors.evaluation import read_sets
from pipelines.tracking.promotion import Comparison, PromoteConfig
from pipelines.tracking.registry import Registry, Version
from pipelines.word_vectors.settings import EvaluateVectors


def compare_versions(
    registry: Registry, candidate: Version, champion: Version, config: PromoteConfig, settings: EvaluateVectors
) -> Comparison:
    """The candidate against the champion on the sets of `vectors.evaluate`.

    Raises:
        UserError: a metric of translations, no sets, or vectors that have nothing in common.
    """
    if config.metric not in METRICS:
        raise unknown("promote.metric", config.metric, METRICS)
    metric: Metric = config.metric
    if settings.root is None or not (settings.similarity or settings.analogies):
        raise UserError(
            "vectors.evaluate.root: word vectors are promoted by similarity sets and analogies; name their folder "
            "(vectors=english lists the English files), or use promote.force=true with a reason"
        )
    sets = read_sets(settings)
    found = significance(
        fetch(registry, champion), fetch(registry, candidate), sets, settings.restrict, metric, config.samples
    )
    sizes = dict(part.split(":") for part in found.signature.split("|"))
    items = int(sizes["pairs"]) + int(sizes["questions"])
    return Comparison(found.metric, found.candidate, found.baseline, found.p_value, items, "pairs and questions")


def fetch(registry: Registry, version: Version) -> Embeddings:
    """The vectors of a version; nothing of a download stays behind."""
    with tempfile.TemporaryDirectory() as folder:
        return load_vectors(registry.bundle(version, Path(folder))).embeddings
