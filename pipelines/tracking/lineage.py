"""Records where a training comes from; `sharding.py` where its shards do, so that each leads to the other.

model version --run id--> training run --shard_run_id, manifest_hash--> sharding run --> sources, drop counts
                                |                                            |
                            config.yaml                              manifest.json, pictures

Selects the configuration values that become a run's parameters: identifying ones, and those that differ from conf/.

The whole configuration is the run's artifact `config.yaml`; 150 defaults among the parameters would hide the settings.
"""

import platform
import re
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from dragoman.conf.groups import choices, merge_choice, written_defaults
from dragoman.model.addresses import mask_credentials
from dragoman.model.bundles.ancestry import ancestry, tokenizer_facts
from dragoman.model.shards.manifest import MANIFEST, Manifest, manifest_hash, read_manifest
from dragoman.pipelines.tracking import names
from dragoman.pipelines.tracking.author import user
from dragoman.pipelines.tracking.descriptions import NOTE, describe_run, job_line, job_tags, without_markup
from dragoman.pipelines.tracking.run import TrackedRun

GIT_SECONDS = 5.0  # for an answer
HERE = Path(__file__).resolve().parent


def git_commit(folder: Path = HERE) -> str | None:
    """Returns the hash of HEAD in the repository around `folder`; None without a repository or git."""
    try:
        words = ["git", "-C", str(folder), "rev-parse", "--verify", "--quiet", "HEAD"]
        completed = subprocess.run(words, capture_output=True, text=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return completed.stdout.strip() if completed.returncode == 0 else None


KNOWN_BY = (  # shown for every run, to compare runs
    *(
        "name",
        "pair",
        "seed",
        "corpus.name",
        "tokenizer.name",
        "tokenizer.vocabulary",
        "model.name",
        "model.architecture",
    ),
    *("train.max_steps", "train.optimizer.lr", "train.precision", "loader.batch_tokens", "loader.lanes"),
)


def shown_values(config: Mapping[str, Any]) -> dict[str, str]:
    """Returns dotted key -> value of what is worth a parameter, in the order of the configuration."""
    defaults = _defaults(config)
    texts = names.flat_texts(config)
    return {key: text for key, text in texts.items() if key in KNOWN_BY or not _same(text, defaults.get(key))}


def _defaults(config: Mapping[str, Any]) -> dict[str, str]:
    """Returns dotted key -> the files' values, with those of the choices that the sections are named after."""
    defaults = {key: str(value) for key, value in written_defaults().items()}
    for section, values in config.items():
        choice = values.get("name") if isinstance(values, Mapping) else None
        if choice in choices(section):
            defaults |= names.flat_texts({section: merge_choice(section, str(choice))})
    return defaults


def _same(text: str, default: str | None) -> bool:
    """Returns True if a value is the default: 1e-9 is 1e-09, and a value made of other keys counts as one."""
    if default is None or text == default or "${" in default:
        return default is not None
    try:
        return float(text) == float(default)
    except ValueError:
        return False


PACKAGES = ("torch", "ray", "mlflow", "sentencepiece", "ctranslate2", "sacrebleu", "numba")
SECRET = re.compile(r"password|secret|token$|api_key", re.IGNORECASE)
NOT_PARAMETERS = (
    "paths",
    "tracking",
    "serve",
    "inspect",
    "translate",
    "jobs",
    "registry",
    "promote",
    "models",
    "compare",
    "sweep",
)


def log_training(run: TrackedRun, config: Mapping[str, Any], config_hash: str, shards: Path) -> None:
    """Logs a training before its first step: configuration, code, data, and the link to the sharding run."""
    log_shards(run, "train", config, config_hash, shards)
    run.tags(ancestry(tokenizer_facts(read_manifest(shards))))
    run.artifact(shards / MANIFEST, "shards", keep=True)


def log_import(run: TrackedRun, origin: Mapping[str, Any], pair: str, digest: str) -> None:
    """Logs an imported model: its source, revision, license and files; `digest` is its bundle's."""
    source = mask_credentials(str(origin["source"]))
    note = f"Import of `{pair}` from {without_markup(source)}"
    _log_origin(run, "import", {"imported": {**origin, "source": source}}, digest)
    run.tags({"pair": pair, NOTE: "\n\n".join([note, *job_line(job_tags())])})


def log_comparison(run: TrackedRun, config: Mapping[str, Any], config_hash: str, shards: Path) -> None:
    """Logs a comparison of networks except its results: configuration, code, data."""
    log_shards(run, "compare", config, config_hash, shards)
    run.params({key: config[key] for key in ("models", "compare")})


def log_shards(run: TrackedRun, kind: str, config: Mapping[str, Any], config_hash: str, shards: Path) -> Manifest:
    """Logs the origin of a run that reads or makes shards; of one that reads them, also its dataset inputs."""
    manifest, digest = read_manifest(shards), manifest_hash(shards)
    data = {"manifest_hash": digest, "corpus": manifest.corpus, "pair": "-".join(manifest.languages)}
    _log_origin(run, kind, config, config_hash)
    run.tags({**data, NOTE: describe_run(kind, config, data)})
    if kind != "shard":
        log_dataset(run, manifest, digest, shards)
        run.link("shard_run_id", {"kind": "shard", "manifest_hash": digest})
    return manifest


def log_dataset(run: TrackedRun, manifest: Manifest, digest: str, shards: Path) -> None:
    """Logs the shards as the run's dataset inputs, one per split."""
    for name, split in manifest.splits.items():
        sizes = {key: getattr(split, key) for key in ("records", "source_tokens", "target_tokens")}
        context = {"train": "training", "valid": "validation", "test": "evaluation"}.get(name, name)
        source = {"path": str(shards), "manifest_hash": digest, "split": name}
        run.dataset(f"{manifest.corpus}-{name}", digest, source, context, profile=sizes)


def without_secrets(values: Any) -> Any:
    """Returns a configuration fit to be shown: passwords, tokens and credentials in addresses are replaced."""
    if isinstance(values, Mapping):
        return {
            key: "***" if SECRET.search(str(key)) and isinstance(value, str) and value else without_secrets(value)
            for key, value in values.items()
        }
    if isinstance(values, list | tuple):
        return [without_secrets(value) for value in values]
    return mask_credentials(values) if isinstance(values, str) else values


def _log_origin(run: TrackedRun, kind: str, config: Mapping[str, Any], config_hash: str) -> None:
    run.tags({"kind": kind, "config_hash": config_hash, "python": platform.python_version(), **_versions()})
    run.tags(job_tags())
    # Shown by MLflow's pages as "Created by" and "Source".
    run.tags({"mlflow.user": user(), "mlflow.source.name": f"dragoman {kind}", "mlflow.source.type": "LOCAL"})
    parent = config.get("tracking", {}).get("parent")
    if parent:
        run.tags({"mlflow.parentRunId": parent})
    commit = git_commit()
    if commit:
        run.tags({"git_commit": commit, "mlflow.source.git.commit": commit})
    config_shown = without_secrets(config)
    run.text(yaml.safe_dump(config_shown, sort_keys=False, allow_unicode=True), "config.yaml")
    run.params(shown_values({key: value for key, value in config_shown.items() if key not in NOT_PARAMETERS}))


def _versions() -> dict[str, str]:
    versions = {}
    for package in PACKAGES:
        try:
            versions[f"version.{package}"] = version(package)
        except PackageNotFoundError:
            continue
    return versions
