"""`dragoman promote`: makes a version champion if it is better than the champion. The endpoint follows the alias.

    dragoman promote                                         the newest version, by proof
    dragoman promote promote.version=7
    dragoman promote --policy [p_value=0.01 questions=50 gates=2]   what every promotion must prove
    dragoman promote promote.force=true promote.reason="the champion mistranslates names"

Both versions translate the gate of `paths.shards` (the split `gate`, else `valid`), each with its serving settings.
Language models are compared by its likelihood; word vectors answer half of the similarity sets and analogies. The lead
must hold under paired bootstrap resampling, and more clearly the more often the gate was used. Scores on the test set
are reported, and nothing depends on them. On the held-out sets of other shards (`promote.also`) the version may lose at
most `promote.may_lose`: a guard against forgetting. Under the rules of `promote.checks` it may have no more faults of
meaning (docs/evaluation.md).
Exit code 0: the version is champion now. 1: it is not better, the champion stays.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

from dragoman.conf import compose
from dragoman.model.errors import UserError
from dragoman.model.shards.manifest import has_manifest
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.held_out import gate_split
from dragoman.pipelines.settings import EvaluateConfig
from dragoman.pipelines.tasks.base import task_of
from dragoman.pipelines.tasks.openings import Held, held_split, note_opening
from dragoman.pipelines.tasks.training_texts import Overlap, refuse_learned
from dragoman.pipelines.tracking.cards import IMPORTED_TAG, KIND_TAG
from dragoman.pipelines.tracking.promotion import Compare, Comparison, Outcome, change_policy, promote
from dragoman.pipelines.tracking.registry import Registry, Version

PROMOTIONS = "promotions"  # the folder of the openings by promotions


def task(config: Config) -> int:
    """Returns exit code 0 if the version is champion now, 1 if it was not better; 0 for the policy."""
    if config.promote.show_policy:
        policy = change_policy(Registry(config.tracking, config.registry), config.promote.policy)
        print(f"{config.registry.name}: {policy}")
        return compose.OK
    outcome = promote_version(config)
    print(f"{config.registry.name}: {outcome.message}")
    return compose.OK if outcome.accepted else compose.FAILED


def promote_version(config: Config) -> Outcome:
    """Promotes `promote.version` by the held-out texts of `paths.shards`, or word vectors by `vectors.evaluate`.

    Promotions that share `paths` take turns, and are counted there as openings of the texts.
    """
    store = Registry(config.tracking, config.registry)
    lock = config.paths.local(config.paths.mlflow) / "promote.lock"
    return promote(store, config.promote, comparison(store, config), lock)


def comparison(registry: Registry, config: Config) -> Compare:
    """Returns the comparison of two versions: by the task of their kind, reading its data only when needed."""
    opened: set[Path] = set()

    def open_gate(candidate: Version, settings: Config) -> Overlap:
        held, common = check_gate(registry, candidate, settings)
        if settings.shard_dir not in opened:  # a champion that changed meanwhile is no second look
            name = candidate.tags.get("run_name", f"version {candidate.number}")
            place = settings.paths.local(settings.paths.root) / PROMOTIONS / registry.config.name
            note_opening(settings.paths, registry.tracking, held, place, name)
            opened.add(settings.shard_dir)
        return common

    def compare(candidate: Version, champion: Version | None, samples: int) -> Comparison | None:
        kinds = [version.tags.get(KIND_TAG, "translation") for version in (candidate, champion) if version is not None]
        if champion is not None and kinds[0] != kinds[1]:
            raise UserError(
                f"registry.name: version {candidate.number} is of kind {kinds[0]}, the champion {champion.number} of "
                f"kind {kinds[1]}; they cannot be compared and belong under different names"
            )
        if champion is None and IMPORTED_TAG in candidate.tags and not has_manifest(config.shard_dir):
            return None
        row = task_of(kinds[0])
        if config.promote.also and not row.held_out:
            raise UserError(f"promote.also: a model of kind {kinds[0]} answers no held-out texts; leave it out")
        if config.promote.checks and kinds[0] != "translation":
            raise UserError(
                f"promote.checks: rules judge translations, and the versions are of kind {kinds[0]}; choose []"
            )
        settings = replace(config, promote=replace(config.promote, samples=samples))
        learned = open_gate(candidate, settings) if row.held_out else ""
        judged = replace(row.judge(settings, registry, candidate, champion), learned=str(learned))
        kept = []
        for folder in config.promote.also if champion is not None else ():
            there = replace(settings, paths=replace(settings.paths, shards=folder))
            open_gate(candidate, there)
            lead = row.judge(there, registry, candidate, champion)
            kept.append(replace(lead, of=f"{lead.of} of {there.shard_dir.name}"))
        return replace(judged, kept=tuple(kept), may_lose=config.promote.may_lose)

    return compare


def check_gate(registry: Registry, candidate: Version, config: Config) -> tuple[Held, Overlap]:
    """Returns the gate of `paths.shards`, and how much of it the candidate learned from."""
    held = held_split(config.shard_dir, gate_split(config.shard_dir, config.promote.split))
    assert held is not None, "a gate has texts"
    what = f"promote.version={candidate.number}, {held.split} (set {held.digest})"
    with tempfile.TemporaryDirectory() as folder:
        bundle = registry.bundle(candidate, Path(folder))
        way_on = "promote it by promote.force=true with a reason"
        return held, refuse_learned([bundle], held.sides, EvaluateConfig.may_know, what, way_on)
