"""Whether a finished or interrupted run is what an undisturbed one would be: shards, steps, starts, weights, bundle.

Nothing is asked of the command line but where the run is: what it is made of stands in its RUN/run.json.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from model.bundles.directory import CONFIG, WEIGHTS, check_files, read_facts
from model.errors import UserError, unknown
from model.renamed import current_values
from model.shards.manifest import MANIFEST, manifest_hash
from model.shards.verify import verify as verify_shards
from pipelines.config import Config
from pipelines.settings import LoaderConfig
from pipelines.tasks.base import task_for
from pipelines.training import checkpoint
from pipelines.training.run_record import RECORD, read
from pipelines.training.verification import Check, DifferenceError, check_starts, check_steps, check_weights
from pipelines.word_vectors.settings import VectorsConfig


def verify(config: Config) -> list[Check]:
    """Everything that can be compared of the run `name`.

    Raises:
        UserError: there is no such run, or its shards are out of sight.
    """
    run = config.run_dir
    record = read(run / RECORD)
    if record is None:
        found = sorted(path.parent.name for path in run.parent.glob(f"*/{RECORD}"))
        raise unknown(f"no run in {run.parent}", config.name, found)
    record = current_values(record)
    config = replace(
        recorded_config(config, record), paths=replace(config.paths, shards=str(find_shards(config, record)))
    )
    checks = [check_shards(config.shard_dir)]
    if checks[0].result == "same":
        try:
            checks.append(check_steps(run, task_for(config.model).replay(config)))
        except UserError as problem:
            checks.append(Check("steps", "differs", str(problem)))
    else:
        checks.append(Check("steps", "not recorded", "not compared, for the shards are not what they were"))
    lanes = config.loader.lanes if "loader" in record else None
    return [*checks, check_starts(run, lanes), check_weights(run), check_bundle(run, str(record["shards"]))]


def recorded_config(config: Config, record: Mapping[str, Any]) -> Config:
    """What a run's batches depend on, as its record has it; what is younger than the run stands at its default."""
    return replace(
        config,
        seed=int(record.get("seed", config.seed)),
        model=record["model"],
        loader=replace(LoaderConfig(), **record.get("loader", {})),
        vectors=replace(VectorsConfig(), **record.get("vectors", {})),
    )


def find_shards(config: Config, record: Mapping[str, Any]) -> Path:
    """The shards that the run was trained on, by their manifest's hash: in `paths.shards`, where its release says, or
    among those that lie beside the runs.

    Raises:
        UserError: in none of these.
    """
    released = (read(config.run_dir / "release.json") or {}).get("shards")
    beside = sorted(path.parent for path in (config.run_dir.parent.parent / "shards").glob(f"*/{MANIFEST}"))
    places = [config.shard_dir, *([Path(released)] if released else []), *beside]
    for place in places:
        if (place / MANIFEST).is_file() and manifest_hash(place) == record["shards"]:
            return place
    raise UserError(
        f"paths.shards={config.shard_dir}: not the shards that {config.name} was trained on (manifest "
        f"{str(record['shards'])[:12]}), and they are not in {', '.join(map(str, places[1:])) or 'sight'} either. "
        f"Say where they are: paths.shards=FOLDER"
    )


def check_shards(directory: Path) -> Check:
    """Every file of the shards against its sha256 in the manifest."""
    try:
        count = verify_shards(directory)
    except UserError as problem:
        return Check("shards", "differs", str(problem))
    return Check("shards", "same", f"{count} files, manifest {manifest_hash(directory)[:12]}")


def check_bundle(run: Path, shards: str) -> Check:
    """The final bundle's files against their sha256, and what it says that it was made from against the run."""
    bundle = run / "bundle"
    if not (bundle / CONFIG).is_file():
        return Check("bundle", "not recorded", "there is none yet")
    try:
        facts = read_facts(bundle)
        check_files(bundle, facts["files"])
        if facts.get("manifest_hash", shards) != shards:
            raise DifferenceError(
                f"{bundle}: made from the shards {facts['manifest_hash'][:12]}, the run from {shards[:12]}"
            )
        compared = compare_origin(run, facts)
    except (DifferenceError, UserError) as problem:
        return Check("bundle", "differs", str(problem))
    return Check("bundle", "same", f"{len(facts['files'])} files, {compared}")


def compare_origin(run: Path, facts: Mapping[str, Any]) -> str:
    """How far the weights that a bundle names as its own could be compared with those that the run has.

    Raises:
        DifferenceError: they are others.
        UserError: weights of the run are damaged.
    """
    weights, made_from = facts.get("weights") or {}, facts.get("made_from") or {}
    named = list(zip(weights.get("steps", ()), weights.get("sha256", ()), strict=False))
    named += [(made_from["step"], digest) for digest in made_from.get("tables", {}).values() if "step" in made_from]
    checkpoints, kept = checkpoint.every(run), checkpoint.weights_by_step(run)
    there = 0
    for step, digest in named:
        known = set(checkpoint.check(checkpoints[step]).values()) if step in checkpoints else set()
        known |= {found for found in [checkpoint.recorded_hash(kept[step])] if found} if step in kept else set()
        if known and digest not in known:
            raise DifferenceError(f"{run / 'bundle'}: made from weights of step {step:,} that are not those of the run")
        there += bool(known)
    if named and weights.get("from") not in (None, "last", "ema") and all(step in kept for step, _ in named):
        mean = checkpoint.average([kept[step] for step, _ in named], unhashed=True)
        stored = load_file(run / "bundle" / WEIGHTS)
        if mean.keys() != stored.keys() or not all(torch.equal(value, stored[name]) for name, value in mean.items()):
            raise DifferenceError(f"{run / 'bundle' / WEIGHTS}: is not the mean of the weights that it names")
    if not named:
        return "of no weights of the run's"
    return f"made from weights of the run: {there} of {len(named)} are still there"
