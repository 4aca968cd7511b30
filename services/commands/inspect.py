"""`dragoman inspect PATH`: shows the content and origin of a shard, a bundle, a checkpoint or a run."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from dragoman.conf import compose
from dragoman.model.bundles.directory import CONFIG
from dragoman.model.bundles.download import bring_bundle
from dragoman.model.errors import UserError
from dragoman.model.files import atomic_path
from dragoman.model.ranges import Whole
from dragoman.model.runs.paths import BUNDLE, RECORD, TRAINING
from dragoman.model.shards.manifest import MANIFEST
from dragoman.model.storage.mirror import bring, bring_checked, remote_of
from dragoman.model.storage.places import local_folder
from dragoman.model.storage.remote import download_unchecked
from dragoman.model.text.excerpt import excerpt
from dragoman.model.text.hashed_texts import seen, summary
from dragoman.services.commands.contents import KINDS, check, contents, listed_files
from dragoman.services.models.registry import Registry


@dataclass
class InspectConfig:
    """The path to inspect, and how much to show."""

    path: str | None = None
    format: Literal["text", "json"] = "text"
    verify: bool = False  # check the sha256 of every listed file
    samples: Whole = 2  # records of a shard
    knows: str | None = None  # a file of lines: which of these did the run or bundle learn from?
    parameters: bool = False  # of a network: every matrix with shape, formula and share; the cost of a step by part
    tracking_uri: str = "sqlite:///artifacts/mlflow/mlflow.db"
    cache: str = "artifacts/cache/models"
    runs: str = "artifacts/runs"  # where a run's name is looked up


def main(argv: Sequence[str]) -> int:
    """Returns the command's exit code. The first word may be the path itself."""
    words = list(argv)
    path = words.pop(0) if words and not words[0].startswith("-") and _is_path(words[0]) else None
    return compose.run_section(lambda config: inspect(config, path), "inspect", InspectConfig, words, "inspect")


def inspect(config: InspectConfig, path_given: str | None = None) -> int:
    """Prints the content of `path_given`, or of the configured path.

    Raises UserError: no path, nothing there, or a damaged file.
    """
    name = path_given or config.path
    if name is None:
        raise UserError(
            f"inspect.path: say what to look at: dragoman inspect PATH ({KINDS}, a run's name, or models:/NAME@ALIAS)"
        )
    facts: dict[str, Any] = {}
    if name.startswith("models:/"):
        registry = Registry(config.tracking_uri, Path(config.cache))
        version = registry.resolve(name)
        facts = {"registered": {"name": version.name, "version": version.version, "run_id": version.run_id}}
        path = registry.fetch(version)
    else:
        run = Path(config.runs) / name
        if run.is_dir() and name == run.name:  # ./NAME is a folder here
            path = run if (run / RECORD).is_file() else run / BUNDLE  # of an import
        else:
            path = fetched(name, config.cache)
    if config.knows is not None:
        facts |= learned_lines(path, Path(config.knows))
    elif config.parameters:
        from dragoman.services.commands.parameters import parameters  # loads torch

        facts |= parameters(path)
    else:
        facts |= contents(path, config.samples)
    if config.verify:
        facts["verified"] = f"{check(path)} files have the sha256 that they should have"
    if config.format == "json":
        print(json.dumps(facts, ensure_ascii=False))
    else:
        print(as_text(facts))
    return compose.OK


def learned_lines(path: Path, file: Path) -> dict[str, Any]:
    """Returns the lines of a file that a run, a bundle or shards learned from; of a table every column counts."""
    if not file.is_file():
        raise UserError(f"inspect.knows={file}: no such file; a file of a sentence a line, or of tab-separated sides")
    place = next((folder for folder in (path, path / BUNDLE) if (folder / TRAINING).is_file()), None)
    if place is None:
        return {"path": str(path), "training data": "unknown; it was made without hashes of its texts, or imported"}
    lines = file.read_text(encoding="utf-8-sig").splitlines()
    cells = [line.split("\t") for line in lines]
    sides = [[row[number] if number < len(row) else "" for row in cells] for number in range(max(map(len, cells)))]
    is_known = seen(place / TRAINING, sides)
    figures = summary(place / TRAINING)
    return {
        "path": str(place),
        "texts": figures["hashes"],
        "chance of taking another line for one": f"{sum(figures['hashes'] for _ in sides) / 2 ** figures['bits']:.2g}",
        "unknown": figures["unknown"],
        "learned": f"{int(is_known.sum()):,} of {len(lines):,} lines",
        "lines": [
            {"line": number, "text": excerpt(line)} for number, line in enumerate(lines, 1) if is_known[number - 1]
        ],
    }


def fetched(name: str, cache: str) -> Path:
    """Returns the local file for `contents`: the file or, for an address, a bundle or manifest with its files."""
    path = local_folder(name, cache)
    elsewhere = remote_of(path)
    if elsewhere is None:
        return path
    if path.suffix in (".tar", ".safetensors"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path, durable=False) as part:
            download_unchecked(elsewhere.address, part, elsewhere.patience)
        return path
    bring_bundle(path)
    if not (path / CONFIG).is_file():
        bring(path / MANIFEST)
        for file, sha256 in listed_files(path).items():
            bring_checked(path / PurePosixPath(file).name, None, sha256)
    return path


def as_text(values: dict[str, Any], indent: str = "") -> str:
    """Returns nested values as aligned lines."""
    width = max((len(str(key)) for key in values), default=0)
    rows = []
    for key, value in values.items():
        if isinstance(value, dict) and value:
            rows += [f"{indent}{key}", as_text(value, indent + "  ")]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            rows.append(f"{indent}{key}")
            rows += [f"{indent}  - {', '.join(f'{name}: {entry[name]}' for name in entry)}" for entry in value]
        else:
            rows.append(f"{indent}{key:<{width}}  {_word(value)}".rstrip())
    return "\n".join(rows)


def _word(value: Any) -> str:
    if value is None or value in ({}, []):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def _is_path(word: str) -> bool:
    """Returns True for a path: anything that exists, or is not KEY=VALUE with a dotted key."""
    return "://" in word.partition("=")[0] or Path(word).exists() or "=" not in word
