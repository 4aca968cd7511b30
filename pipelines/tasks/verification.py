"""Checks that a finished or interrupted run is what an undisturbed one would be: shards, steps, starts, weights,
bundle.

The command line only says where the run is: its settings are in RUN/run.json.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from dragoman.model.bundles.directory import CONFIG, WEIGHTS, check_files, read_facts
from dragoman.model.errors import UserError, unknown
from dragoman.model.files import file_sha256
from dragoman.model.layers.low_rank import merged
from dragoman.model.plural import plural
from dragoman.model.runs import checkpoints, journal, paths
from dragoman.model.runs.bundles import is_released
from dragoman.model.runs.paths import BUNDLE, RECORD, STEPS
from dragoman.model.runs.record import read_record, read_release
from dragoman.model.shards.manifest import MANIFEST, manifest_hash, read_manifest
from dragoman.model.shards.verify import verify as verify_shards
from dragoman.model.text.hashed_texts import find, read, summary
from dragoman.pipelines.config import Config, VerifyRoot
from dragoman.pipelines.tasks.base import task_for
from dragoman.pipelines.tasks.identity import recorded_config
from dragoman.pipelines.tasks.recompute import check_recomputed
from dragoman.pipelines.tasks.score_verification import check_scores
from dragoman.pipelines.tasks.translation import Pairs
from dragoman.pipelines.training import checkpoint
from dragoman.pipelines.training.chain import check_records, is_whole
from dragoman.pipelines.training.final_weights import with_first
from dragoman.pipelines.training.verification import (
    Check,
    DifferenceError,
    NotRecordedError,
    check,
    check_rates,
    check_starts,
    check_weights,
    compare_steps,
    last_step,
)


def check_parts(config: Config) -> Check | None:
    """Traces every record of every step to its corpus; None if the shards are no mix. The steps must be proved."""
    ranges = read_manifest(config.shard_dir).part_ranges("train")
    if not ranges:
        return None
    counts = np.zeros(len(ranges), np.int64)
    ends = [ids.stop for ids in ranges.values()]
    with contextlib.closing(Pairs(config).loader()) as loader:
        for _ in range(last_step(config.run_dir)):
            for batch in loader.step():
                counts += np.bincount(
                    np.searchsorted(ends, loader.records_of(batch), side="right"), minlength=len(ranges)
                )
    part_counts = [
        f"{name} {plural(count, 'record')}, {count / len(ids):.2f} times"
        for (name, ids), count in zip(ranges.items(), counts.tolist(), strict=True)
    ]
    return Check("parts", "same", "; ".join(part_counts))


def verify(config: VerifyRoot) -> list[Check]:
    """Compares everything of the run `name` that can be compared.

    Raises UserError: there is no such run, or its shards cannot be found.
    """
    run = config.run_dir
    record = read_record(run)
    if record is None and (run / BUNDLE / "config.json").is_file():
        raise UserError(f"{config.name}: an import, which has no steps and scores to verify")
    if record is None:
        names = sorted(path.parent.name for path in run.parent.glob(f"*/{RECORD}"))
        raise unknown(f"no run in {run.parent}", config.name, names)
    settings: Config = replace(
        recorded_config(config, record),
        paths=replace(config.paths, shards=str(find_shards(config, str(record["shards"])))),
    )
    return list(checks_of(config, settings, record))


def checks_of(config: VerifyRoot, settings: Config, record: Mapping[str, Any]) -> Iterator[Check]:
    """Yields what is compared, one after the other; `settings` are the run's."""
    run, lanes = settings.run_dir, settings.loader.lanes if "loader" in record else None
    try:
        chained = is_whole(run)
    except DifferenceError:  # the steps say so
        chained = True
    shards = check_shards(settings.shard_dir)
    yield shards
    whole = shards.result == "same"
    steps = Check("steps", "not recorded", "not compared, for the shards are not what they were")
    if whole:
        steps = require(check_batches(settings), chained)
    yield steps
    if steps.result == "same" and "mix" in record.get("loader", {}) and (parts := check_parts(settings)):
        yield parts
    yield check_rates(run, record)
    yield require(check_starts(run, lanes), chained)
    yield require(check_weights(run), chained)
    yield check_bundle(run, str(record["shards"]), chained and "train" in record)
    yield check_learned(settings)
    yield check_scores(settings, lambda digest: find_shards(config, digest), config.verify.sample)
    yield check_records(run)
    if config.verify.recompute and whole:
        yield check_recomputed(settings, record, config.verify.recompute)


def require(check: Check, chained: bool) -> Check:
    """Returns the check; in a run whose records are a chain, anything unrecorded counts as removed."""
    missing = chained and check.result == "not recorded"
    return replace(check, result="differs", detail=f"{check.detail}; this run recorded more") if missing else check


def find_shards(config: Config, digest: str) -> Path:
    """Returns the shards that the run was trained or evaluated on, by their manifest's hash: in `paths.shards`, at the
    release's place, or among those beside the runs.
    """
    released = read_release(config.run_dir).get("shards")
    beside = sorted(path.parent for path in (config.run_dir.parent.parent / "shards").glob(f"*/{MANIFEST}"))
    places = [config.shard_dir, *([Path(released)] if released else []), *beside]
    for place in places:
        if (place / MANIFEST).is_file() and manifest_hash(place) == digest:
            return place
    raise UserError(
        f"paths.shards={config.shard_dir}: not the shards that {config.name} was made with (manifest "
        f"{digest[:12]}), and they are not in {', '.join(map(str, places[1:])) or 'sight'} either. "
        f"Say where they are: paths.shards=FOLDER"
    )


@check("shards")
def check_shards(directory: Path) -> str:
    """Checks every file of the shards against its sha256 in the manifest."""
    return f"{plural(verify_shards(directory), 'file')}, manifest {manifest_hash(directory)[:12]}"


@check("steps")
def check_batches(settings: Config) -> str:
    """Compares the journal with the batches that the shards and the settings give."""
    return compare_steps(settings.run_dir, task_for(settings.model).replay(settings))


@check("texts")
def check_learned(settings: Config) -> str:
    """Checks that the bundle names the training texts of the shards among those that it learned from."""
    of_shards, of_bundle = (place / paths.TRAINING for place in (settings.shard_dir, settings.run_dir / paths.BUNDLE))
    if not of_shards.is_file() or not is_released(settings.run_dir):
        raise NotRecordedError("shards without hashes of their texts, or no bundle yet")
    if not of_bundle.is_file():
        if not (settings.run_dir / paths.TRAINING).is_file():
            raise NotRecordedError("the run is from before bundles had hashes of their texts")
        raise DifferenceError(f"{of_bundle}: is missing")
    texts = read(of_shards)
    keys = texts.keys << np.uint64(64 - texts.bits)
    learned = find(of_bundle, keys) if texts.bits >= summary(of_bundle)["bits"] else np.ones(len(keys), bool)
    if not learned.all():
        raise DifferenceError(f"{of_bundle}: lacks {int((~learned).sum()):,} of the {len(keys):,} texts of the shards")
    return f"the {plural(len(keys), 'text')} of the shards are among those that the bundle names"


@check("bundle")
def check_bundle(run: Path, shards: str, of_network: bool = False) -> str:
    """Checks the final bundle's files against their sha256, and its recorded origin against the run.

    `of_network`: it must name the weights that it was made from.
    """
    bundle = run / BUNDLE
    if not (bundle / CONFIG).is_file():
        raise NotRecordedError("there is none yet")
    facts = read_facts(bundle)
    check_files(bundle, facts["files"])
    if facts.get("manifest_hash", shards) != shards:
        raise DifferenceError(
            f"{bundle}: made from the shards {facts['manifest_hash'][:12]}, the run from {shards[:12]}"
        )
    compared = compare_origin(run, facts, of_network)
    return f"{plural(len(facts['files']), 'file')}, {compared}"


def compare_origin(run: Path, facts: Mapping[str, Any], of_network: bool = False) -> str:
    """Returns how far the weights that a bundle names could be compared with the run's."""
    weights, made_from = facts.get("weights") or {}, facts.get("made_from") or {}
    steps, digests = weights.get("steps", []), weights.get("sha256", [])
    digests, first = digests[: len(steps)], digests[len(steps) :]  # a share of the run's first weights
    share, _, first_digest = str(first[0] if first else "0").partition(" of ")
    if len(steps) != len(digests) or len(first) > 1:
        raise DifferenceError(
            f"{run / BUNDLE}: names {len(steps)} steps and {len(digests) + len(first)} digests of their weights"
        )
    named = list(zip(steps, digests, strict=True))
    named += [(made_from["step"], digest) for digest in made_from.get("tables", {}).values() if "step" in made_from]
    if of_network and not named:
        raise DifferenceError(f"{run / BUNDLE}: does not name the weights that it was made from")
    origin = run / paths.FIRST_WEIGHTS
    if first and not (origin.is_file() and file_sha256(origin) == first_digest):
        raise DifferenceError(f"{run / BUNDLE}: made with first weights that are not {origin}")
    by_step, kept = checkpoints.every(run), checkpoints.weights_by_step(run)
    there, source = 0, weights.get("from")
    for step, digest in named:
        hashes = [set(checkpoints.check(by_step[step]).values())] if step in by_step else []
        if step in kept and source != "ema":
            hashes.append({checkpoints.recorded_hash(kept[step])})
        if any(digest not in digests for digests in hashes):  # each separately: one may be edited
            raise DifferenceError(f"{run / BUNDLE}: made from weights of step {step:,} that are not those of the run")
        if not hashes and is_last(run, facts):
            raise DifferenceError(f"{run / BUNDLE}: made from weights of step {step:,}, which the run has not got")
        there += bool(hashes)
    expected = None
    if named and source == "ema" and named[0][0] in by_step:
        expected = checkpoint.read(by_step[named[0][0]])[0]["average"]
    elif named and source not in (None, "ema") and all(step in kept for step, _ in named):
        # The loop above has compared each with the digest in the bundle, so none needs a stored hash.
        expected = checkpoint.average([kept[step] for step, _ in named])
    if expected is not None:
        expected, stored = with_first(run, merged(expected), float(share)), load_file(run / BUNDLE / WEIGHTS)
        if not expected.keys() <= stored.keys() or (source != "ema" and expected.keys() != stored.keys()):
            raise DifferenceError(f"{run / BUNDLE / WEIGHTS}: holds other tensors than the weights that it names")
        if not all(torch.equal(value, stored[name]) for name, value in expected.items()):
            raise DifferenceError(f"{run / BUNDLE / WEIGHTS}: is not the mean of the weights that it names")
    if not named:
        return "of no weights of the run's"
    return f"made from weights of the run: {there} of {len(named)} are still there"


def is_last(run: Path, facts: Mapping[str, Any]) -> bool:
    """Returns True if nothing was trained since the bundle was made, so its sources are still there."""
    return bool(facts.get("records")) and facts["records"]["journal"] == journal.head(run, STEPS)
