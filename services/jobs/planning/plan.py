"""Resolves a submission: the command, its inputs, the amount of work. It uses no Ray and no ledger, only the words,
the configuration files and the shards. It runs in the planner's process, because Hydra is not thread-safe."""

import io
import os
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import lru_cache
from pathlib import Path
from typing import Any

from dragoman.conf import compose, groups
from dragoman.conf.again import remembered
from dragoman.model.errors import UserError
from dragoman.model.runs.paths import RECORD
from dragoman.model.schema import flat
from dragoman.model.untrusted import read_object, whole
from dragoman.services.jobs.options import OWNER, owned_words
from dragoman.services.jobs.planning.planner import RefusedPlanError, stamp_of
from dragoman.services.jobs.planning.refusals import (
    CLAIMS,
    ELASTIC,
    SPREADING,
    Areas,
    check_values,
    check_words,
    job_root,
    shipped_words,
)
from dragoman.services.jobs.planning.work import training
from dragoman.services.verbs import run_verb

UNSEEN = "paths.root=out-of-sight"  # for a command whose inputs are still to be made: only its settings are checked
MOST_WORKERS = 1024  # of a range: a plan has a time for each number

# The settings that decide how long a job takes: of sharding, of a training with steps, of all others with the section
# of their own name.
SHARDED = ("corpus", "pair", "tokenizer", "shards")
TRAINED = ("corpus", "pair", "tokenizer", "model", "evaluate", "decode")
READ = (*TRAINED, "models", "train", "vectors", "embeddings", "loader")


def make_plan(
    verb: str,
    words: Sequence[str],
    roots: Sequence[Path],
    gpus: float,
    early: bool = False,
    secrets: Sequence[Path] = (),
    owner: str = "",
) -> dict[str, Any]:
    """Returns the plan of an owner's submission as plain values; `gpus` is the cluster's total.

    `roots` are the service's home, then the other folders that jobs may read. `secrets` are files of the service
    outside of them. `early`: the inputs may not exist yet, because an earlier job makes them; only the settings are
    checked. The plan's `reads` are the files that it depends on, if it depends on nothing else.

    Raises:
        RefusedPlanError: the command refuses them; it has the files that the job would open.
    """
    areas = Areas(roots[0], tuple(roots[1:]), tuple(secrets))
    check_words(verb, [word for word in words if not ELASTIC.fullmatch(word)])
    least, most, words = _elastic(verb, words)
    shipped = _shipped(shipped_words(words), tuple(sorted(os.environ.items())))
    values = compose.values(owned_words(words, owner), job_root())
    places = check_values(verb, words, values, shipped, areas)
    reads = {path: stamp_of(path) for path in _read_by(values)} if verb in CLAIMS else {}  # before they are read
    try:
        plan = _resolve(verb, words, values, gpus, early, owner, (least, most))
    except UserError as problem:
        raise RefusedPlanError(str(problem), places) from None
    return {**plan, "claims": _claims(verb, values, places, areas.home), "places": places, "reads": reads}


def _resolve(
    verb: str,
    words: list[str],
    values: Mapping[str, Any],
    gpus: float,
    early: bool,
    owner: str,
    workers: tuple[int, int],
) -> dict[str, Any]:
    """Returns what the words come to; `workers` is the range of an elastic job, or (0, 0)."""
    least, most = workers
    cluster, loader = values["cluster"], values["loader"]
    spreads = verb in SPREADING and cluster["backend"] != "local"
    choices = list(range(least, most + 1)) if most else [int(cluster["workers"]) if spreads else 1]
    lanes = int(loader["lanes"]) or max(2, choices[-1])
    if most and verb == "train":
        lanes = int(loader["lanes"]) or _lanes_of_run(values) or max(2, most)
        choices = [workers for workers in choices if lanes % workers == 0]
        if not choices:
            raise UserError(f"cluster.workers={least}..{most}: none of them divides loader.lanes={lanes}")
        words = [*(word for word in words if not word.startswith("loader.lanes=")), f"loader.lanes={lanes}"]
    sized = [f"cluster.workers={choices[-1]}"] if most else []
    settled = rehearse(verb, [*owned_words(words, owner), *sized, *([UNSEEN] if early else [])])
    wants_gpu = cluster["device"] == "cuda" or (
        cluster["device"] == "auto" and verb == "train" and gpus >= choices[0] * float(cluster["gpus_per_worker"]) > 0
    )
    work = training(values if early else settled, lanes) if verb == "train" else None
    if work is not None and wants_gpu:
        words = [*words, "cluster.device=cuda"]
    plan: dict[str, Any] = {
        "verb": verb,
        "words": words,
        "elastic": bool(most),
        "spreads": spreads,
        "choices": choices,
        "model": _model(verb, values),
        "run_dir": str(Path(values["paths"]["runs"]).resolve() / str(values["name"])),
        "cpus": float(cluster["cpus_per_worker"]) if spreads else 1.0,
        "gpus": float(cluster["gpus_per_worker"]) if wants_gpu else 0.0,
        "changed": {key: value for key, value in _changed(values, words).items() if groups.reads(verb, key)},
        "shape": _shape(verb, values, lanes, work is not None),
        "fingerprint": compose.fingerprint(values),
    }
    if work is not None:
        plan |= {"steps": work.steps, "tokens": work.tokens, "flops": work.flops, "parameters": work.parameters}
        plan |= {"limit": 60 * float(values["train"]["max_minutes"])} if values["train"]["max_minutes"] else {}
        plan["memory"] = work.memory
    return plan


def _elastic(verb: str, words: Sequence[str]) -> tuple[int, int, list[str]]:
    """Returns (least, most, the other words) of `cluster.workers=1..4`; 0 and 0 without such a word."""
    least = most = 0
    others = []
    for word in words:
        match = ELASTIC.fullmatch(word)
        if match is None:
            others.append(word)
            continue
        least, most = int(match[1]), int(match[2])
        if verb not in ("train", "shard"):
            raise UserError(f"{word}: {verb} has one number of workers")
        if not 1 <= least <= most:
            raise UserError(f"{word}: a range goes from 1 or more up, such as cluster.workers=1..4")
        if most > MOST_WORKERS:
            raise UserError(f"{word}: a range goes up to {MOST_WORKERS:,} workers at most")
    return least, most, others


def _claims(verb: str, values: Mapping[str, Any], places: Sequence[Mapping[str, str]], home: Path) -> str:
    """Returns the real path that only one job may write at a time; empty for commands that write nothing lasting, or
    guard it themselves."""
    path = next(
        (place["path"] for place in places if place["use"] == "write" and place["key"] == CLAIMS.get(verb)), None
    )
    if path is None:
        return ""
    if verb == "train":
        usual = Path(path).parent == (home / "runs").resolve()
        return f"run {values['name'] if usual else path}"
    return f"shards {path}"


def _model(verb: str, values: Mapping[str, Any]) -> str:
    """Returns the registered model that a job changes: new versions or the served alias; empty if none."""
    registers = verb == "train" and values["registry"]["register"]
    return str(values["registry"]["name"]) if registers or verb in ("promote", "rollback") else ""


def _read_by(values: Mapping[str, Any]) -> list[str]:
    """Returns the files, beside the configuration, that a plan of `train` or `shard` is made from."""
    run = Path(values["paths"]["runs"]) / str(values["name"]) / RECORD
    return [str(Path(values["paths"]["shards"]) / "manifest.json"), str(run)]


def _lanes_of_run(values: Mapping[str, Any]) -> int:
    """Returns the lanes of a run that has begun; 0 if it has not."""
    loader = read_object(Path(values["paths"]["runs"]) / str(values["name"]) / RECORD).get("loader")
    return whole(loader.get("lanes")) or 0 if isinstance(loader, Mapping) else 0


def _changed(values: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Returns the dotted keys whose values are not the defaults; without those that only follow from other keys."""
    defaults, written = _defaults(tuple(sorted(os.environ.items()))), groups.written_defaults()
    keys = {word.partition("=")[0].lstrip("+") for word in words}
    return {
        key: value
        for key, value in flat(values)
        if (key not in defaults or defaults[key] != value)
        and (key in keys or (key != OWNER and "${" not in str(written.get(key))))
    }


@lru_cache(maxsize=4)
def _defaults(_environment: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """Returns the defaults; composing them takes as long as composing the configuration."""
    return dict(flat(compose.values([], job_root())))


@lru_cache(maxsize=64)
def _shipped(words: tuple[str, ...], _environment: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """Returns the configuration that a choice of conf/ files composes to."""
    return compose.values(words, job_root())


def _shape(verb: str, values: Mapping[str, Any], lanes: int, steps: bool) -> str:
    """Returns the shape: jobs of one shape take the same time per step on as many workers of the same cluster, and the
    same time beside their steps; those without `steps`, the same time in all."""
    train = {key: values["train"].get(key) for key in ("precision", "evaluate_every", "checkpoint_every", "bleu_every")}
    if verb == "shard":
        sharded = {key: values[key] for key in SHARDED}
    elif steps:
        sharded = {key: values[key] for key in TRAINED} | {
            "loader": {**values["loader"], "lanes": lanes},
            "train": train,
        }
    else:
        sharded = {key: values[key] for key in (*READ, verb) if key in values}
    device = {key: values["cluster"][key] for key in ("backend", "device", "cpus_per_worker")}
    return compose.fingerprint([verb, sharded, device])[:32]


def rehearse(verb: str, words: Sequence[str]) -> dict[str, Any]:
    """Checks the words of a command; returns its configuration, with what its shards and their size settle."""
    said = io.StringIO()
    with compose.rehearsal() as settled, remembered(words), redirect_stderr(said), redirect_stdout(said):
        code = run_verb(verb, words)
    if code != compose.OK:
        lines = said.getvalue().strip().splitlines() or [f"exit code {code}"]
        raise UserError(lines[-1].removeprefix(f"dragoman {verb}: "))
    return settled
