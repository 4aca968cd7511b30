"""`dragoman promote`: makes a version champion if it is better than the champion. The endpoint follows the alias.

    dragoman promote                                         the newest version, by proof
    dragoman promote promote.version=7
    dragoman promote promote.force=true promote.reason="the champion mistranslates names"

Both versions translate the gate of `paths.shards` (the split `gate`, else `valid`), each with its serving settings.
Language models are compared by its likelihood; word vectors answer half of the similarity sets and analogies. The lead
must hold under a paired test. A gate that the version learned from is refused. Scores on the test set are reported, and
nothing depends on them.
Exit code 0: the version is champion now. 1: it is not better, the champion stays.
"""

import tempfile
from pathlib import Path

from dragoman.conf import compose
from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import has_manifest
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.held_out import gate_split
from dragoman.pipelines.tasks.base import task_of
from dragoman.pipelines.tasks.held_out_set import held_split
from dragoman.pipelines.tasks.training_texts import overlap
from dragoman.pipelines.tracking.cards import IMPORTED_TAG, KIND_TAG
from dragoman.pipelines.tracking.promotion import Compare, Comparison, Outcome, promote
from dragoman.pipelines.tracking.registry import Registry, Version

MAY_KNOW = 0.005  # of a gate's lines that a version has learned from


def task(config: Config) -> int:
    """Returns exit code 0 if the version is champion now, 1 if it was not better."""
    outcome = promote_version(config)
    print(f"{config.registry.name}: {outcome.message}")
    return compose.OK if outcome.accepted else compose.FAILED


def promote_version(config: Config) -> Outcome:
    """Promotes `promote.version` by the held-out texts of `paths.shards`, or word vectors by `vectors.evaluate`."""
    registry = Registry(config.tracking, config.registry)
    lock = config.paths.local(config.paths.mlflow) / "promote.lock"
    return promote(registry, config.promote, comparison(registry, config), lock)


def comparison(registry: Registry, config: Config) -> Compare:
    """Returns the comparison of two versions: by the task of their kind, reading its data only when needed."""

    def compare(candidate: Version, champion: Version | None) -> Comparison | None:
        kinds = [version.tags.get(KIND_TAG, "translation") for version in (candidate, champion) if version is not None]
        if champion is not None and kinds[0] != kinds[1]:
            raise UserError(
                f"registry.name: version {candidate.number} is of kind {kinds[0]}, the champion {champion.number} of "
                f"kind {kinds[1]}; they cannot be compared and belong under different names"
            )
        if champion is None and IMPORTED_TAG in candidate.tags and not has_manifest(config.shard_dir):
            return None
        row = task_of(kinds[0])
        if row.training.held_out:
            refuse_learned_gate(registry, candidate, config)
        return row.judge(config, registry, candidate, champion)

    return compare


def refuse_learned_gate(registry: Registry, candidate: Version, config: Config) -> None:
    """Raises UserError for a gate of which the candidate learned more than a few lines."""
    held = held_split(config.shard_dir, gate_split(config.shard_dir, config.promote.split))
    assert held is not None, "a gate has texts"
    with tempfile.TemporaryDirectory() as folder:
        learned = overlap([registry.bundle(candidate, Path(folder))], held.sides)
    if learned is not None and learned.share > MAY_KNOW:
        raise UserError(
            f"promote.split={held.split} (set {held.digest}): version {candidate.number} {learned}, "
            f"{learned.share:.1%}, and at most {MAY_KNOW:.1%} may be so: a score on them says nothing of others. Take "
            f"another gate, or promote it by promote.force=true with a reason"
        )
