"""Checks that a run's files are those that were written, and that its batches are those that its shards give."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from dragoman.model.bundles.directory import check_files, read_facts
from dragoman.model.errors import UserError, unknown
from dragoman.model.plural import plural
from dragoman.model.runs import checkpoints
from dragoman.model.runs.bundles import has_bundle
from dragoman.model.runs.paths import BUNDLE, RECORD
from dragoman.model.runs.record import read_record, read_release
from dragoman.model.shards.manifest import MANIFEST, manifest_hash
from dragoman.model.shards.verify import verify as verify_shards
from dragoman.pipelines.config import Config
from dragoman.pipelines.tasks.base import task_for
from dragoman.pipelines.tasks.identity import recorded_config
from dragoman.pipelines.training.verification import DifferenceError, compare_steps


@dataclass(frozen=True)
class Check:
    """One part of a run, and whether it is what was written."""

    what: str
    same: bool
    detail: str  # the figures, or the first difference


def verify(config: Config) -> list[Check]:
    """Checks the shards, checkpoints, bundle and batches of the run `name`; its settings are in its run.json."""
    run = config.run_dir
    record = read_record(run)
    if record is None and has_bundle(run):
        raise UserError(f"{config.name}: an import, which has no steps to verify")
    if record is None:
        names = sorted(path.parent.name for path in run.parent.glob(f"*/{RECORD}"))
        raise unknown(f"no run in {run.parent}", config.name, names)
    shards = find_shards(config, str(record["shards"]))
    settings = replace(recorded_config(config, record), paths=replace(config.paths, shards=str(shards)))
    checks = [
        make_check("shards", lambda: check_shards(shards)),
        make_check("checkpoints", lambda: check_checkpoints(run)),
        make_check("bundle", lambda: check_bundle(run, str(record["shards"]))),
    ]
    if checks[0].same:
        checks.append(make_check("batches", lambda: check_batches(settings)))
    return checks


def make_check(what: str, examine: Callable[[], str]) -> Check:
    """Returns the check of a function that returns figures, or raises the first difference."""
    try:
        return Check(what, True, examine())
    except (DifferenceError, UserError) as problem:
        return Check(what, False, str(problem))
    except (KeyError, TypeError, ValueError) as problem:
        return Check(what, False, f"damaged ({problem!r})")


def find_shards(config: Config, digest: str) -> Path:
    """Returns the shards with that manifest's hash: in `paths.shards`, where the release was made, or beside the
    runs.
    """
    released = read_release(config.run_dir).get("shards")
    beside = sorted(path.parent for path in (config.run_dir.parent.parent / "shards").glob(f"*/{MANIFEST}"))
    folders = [config.shard_dir, *([Path(released)] if released else []), *beside]
    for folder in folders:
        if (folder / MANIFEST).is_file() and manifest_hash(folder) == digest:
            return folder
    raise UserError(
        f"paths.shards={config.shard_dir}: not the shards that {config.name} was made with (manifest "
        f"{digest[:12]}), and they are not in {', '.join(map(str, folders[1:])) or 'sight'} either. "
        f"Say where they are: paths.shards=FOLDER"
    )


def check_shards(shards: Path) -> str:
    """Compares every file of the shards with its sha256 in the manifest."""
    return f"{plural(verify_shards(shards), 'file')}, manifest {manifest_hash(shards)[:12]}"


def check_checkpoints(run: Path) -> str:
    """Compares every file of every checkpoint, and the weights kept for averaging, with their sha256."""
    complete, kept = checkpoints.every(run), checkpoints.weights_by_step(run)
    for step, path in complete.items():
        checkpoints.check(path)
        if checkpoints.state(path)["step"] != step:
            raise DifferenceError(f"{path}: is of step {checkpoints.state(path)['step']}")
    for path in kept.values():
        checkpoints.recorded_hash(path)
    return f"{plural(len(complete), 'checkpoint')}, weights of {plural(len(kept), 'step')}"


def check_bundle(run: Path, shards: str) -> str:
    """Compares the bundle's files with their sha256, and its shards with the run's."""
    bundle = run / BUNDLE
    if not has_bundle(run):
        return "none yet"
    facts = read_facts(bundle)
    check_files(bundle, facts["files"])
    if (made_from := facts.get("manifest_hash", shards)) != shards:
        raise DifferenceError(f"{bundle}: made from the shards {made_from[:12]}, the run from {shards[:12]}")
    return plural(len(facts["files"]), "file")


def check_batches(settings: Config) -> str:
    """Compares the journal with the batches that the shards and the run's settings give."""
    replay = task_for(settings.model).training.replay(settings)
    if replay is None:
        return "none: the model is counted whole"
    return f"{plural(compare_steps(settings.run_dir, replay), 'step')}, as made again from the shards"
