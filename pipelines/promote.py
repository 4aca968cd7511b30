"""`dragoman promote`: make a version champion if it is better than the champion. The endpoint follows the alias.

    dragoman promote                                         the newest version, by proof
    dragoman promote promote.version=7
    dragoman promote promote.force=true promote.reason="the champion mistranslates names"

Both versions translate the same split of `paths.shards`, each as it would be served; word vectors answer the same
similarity sets and analogies (`vectors.evaluate`); language models are asked for the likelihood of the split. The lead
has to hold under paired bootstrap resampling.
Exit code 0: the version is champion now. 1: it is not better, the champion stays.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from conf import compose
from model.errors import UserError, unknown
from model.inference.translator import open_translator
from pipelines.config import Config
from pipelines.evaluation.metrics import paired_bootstrap
from pipelines.shards.manifest import read_manifest
from pipelines.tracking.hypotheses import hypotheses
from pipelines.tracking.promotion import Compare, Comparison, Outcome, PromoteConfig, promote
from pipelines.tracking.registry import Registry, RegistryConfig, Version
from pipelines.tracking.server import TrackingConfig
from pipelines.tracking.version import KIND_TAG
from pipelines.word_vectors.settings import EvaluateVectors

__all__ = ["PromoteConfig", "main", "promote_version"]


def main(argv: list[str]) -> int:
    """The verb's exit code."""
    return compose.run(task, Config, argv, "promote")


def task(config: Config) -> int:
    """Exit code 0 when the version asked for is champion now, 1 when it was not better."""
    outcome = promote_version(
        config.tracking,
        config.registry,
        config.promote,
        config.shard_dir,
        Path(config.paths.mlflow),
        config.vectors.evaluate,
    )
    print(f"{config.registry.name}: {outcome.message}")
    return 0 if outcome.accepted else 1


def promote_version(
    tracking: TrackingConfig,
    registry: RegistryConfig,
    config: PromoteConfig,
    shards: Path,
    lock_folder: Path,
    sets: EvaluateVectors | None = None,
) -> Outcome:
    """Promote as configured, by the held-out texts in `shards`, word vectors by `sets`. Promotions that share
    `lock_folder` take turns.

    Raises:
        UserError: no such version or split, nothing answers at `tracking.uri`, settings out of range.
    """
    store = Registry(tracking, registry)
    return promote(store, config, comparison(store, config, shards, sets), lock_folder / "promote.lock")


def comparison(registry: Registry, config: PromoteConfig, shards: Path, sets: EvaluateVectors | None = None) -> Compare:
    """How two versions are compared: on `config.split` of `shards`, or on `sets`, read when it comes to it."""

    def compare(candidate: Version, champion: Version) -> Comparison:
        kinds = [version.tags.get(KIND_TAG, "translation") for version in (candidate, champion)]
        if kinds[0] != kinds[1]:
            raise UserError(
                f"registry.name: version {candidate.number} is of kind {kinds[0]}, the champion {champion.number} of "
                f"kind {kinds[1]}; they cannot be compared and belong under different names"
            )
        if kinds[0] == "vectors":
            from pipelines.tasks.vectors_promotion import compare_versions

            return compare_versions(registry, candidate, champion, config, sets or EvaluateVectors())
        if kinds[0] in ("language", "masked"):
            from pipelines.tasks.language_promotion import compare_texts

            return compare_texts(registry, candidate, champion, config, shards)
        return compare_translations(registry, candidate, champion, config, shards)

    return compare


def compare_translations(
    registry: Registry, candidate: Version, champion: Version, config: PromoteConfig, shards: Path
) -> Comparison:
    """The candidate's translations of the held-out split against the champion's.

    Raises:
        UserError: a metric of word vectors, or no such split.
    """
    names: dict[str, Literal["bleu", "chrf"]] = {"auto": "bleu", "bleu": "bleu", "chrf": "chrf"}
    if config.metric not in names:
        raise unknown("promote.metric", config.metric, names)
    metric = names[config.metric]
    sources, references, language = texts(shards, config.split)
    champions = hypotheses(registry, champion, config.split, sources, translate)
    candidates = hypotheses(registry, candidate, config.split, sources, translate)
    found = paired_bootstrap(champions, candidates, references, language, samples=config.samples, metric=metric)
    label = {"bleu": "BLEU", "chrf": "chrF"}[metric]
    return Comparison(label, found.candidate, found.baseline, found.p_value, len(sources))


def texts(shards: Path, split: str) -> tuple[list[str], list[str], str]:
    """Sources and references of a held-out split, and the target language.

    Raises:
        UserError: the shards keep no texts of that split.
    """
    manifest = read_manifest(shards)
    if split not in manifest.texts:
        raise UserError(f"promote.split: {split!r} is not held out in {shards}. Choices: {', '.join(manifest.texts)}")
    source, target = (
        (shards / manifest.texts[split][language]["file"]).read_text(encoding="utf-8").split("\n")[:-1]
        for language in manifest.languages
    )
    return source, target, manifest.languages[1]


def translate(bundle: Path, lines: Sequence[str]) -> list[str]:
    """By the bundle's own engine and decoding defaults: what the endpoint would answer."""
    return [answer.text for answer in open_translator(bundle).translate(list(lines))]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
