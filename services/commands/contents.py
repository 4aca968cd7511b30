"""What a path holds and what it was made from, read from JSON and headers alone: no weights, nothing executed.

Every reader returns plain values, in the order in which they are shown.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from model.errors import UserError
from model.files import file_sha256
from model.runs import checkpoints, paths
from model.runs.bundles import is_released
from model.runs.lines import JournalReader
from model.shards import verify
from model.shards.manifest import MANIFEST, read_manifest
from model.untrusted import read_json, read_object, read_word
from services.commands.shard_contents import read_shard, read_shard_directory

KINDS = "a shard (.tar), a shard directory, a bundle, a checkpoint, a run directory, a .safetensors file"
WEIGHTS = ("network.safetensors", "tables.safetensors")  # of a checkpoint: a network's, or word vectors'
TEXT_KINDS = {"language": "language model", "masked": "masked language model"}  # bundles by what they say they are
FREQUENT = 12  # words of word vectors that are shown


def contents(path: Path, samples: int = 2) -> dict[str, Any]:
    """What `path` is and holds.

    Raises:
        UserError: there is nothing at `path`, it is none of the kinds, or it is damaged.
    """
    if not path.exists():
        raise UserError(f"{path}: no such file or directory")
    if path.is_file():
        if path.suffix == ".tar":
            return read_shard(path, samples)
        if path.suffix == ".safetensors":
            return {"kind": "weights", "path": str(path), **tensors(path)}
        if path.name in (MANIFEST, "config.json"):
            return contents(path.parent, samples)
        raise UserError(f"{path}: not {KINDS}")
    manifest = read_json(path / MANIFEST) or {}
    if "splits" in manifest:
        return read_shard_directory(path)
    if "step" in manifest:
        return read_checkpoint(path, manifest)
    if (path / "config.json").is_file():
        return read_bundle(path)
    if (path / paths.CHECKPOINTS).is_dir() or (path / paths.STEPS).is_file():
        return read_run(path)
    raise UserError(f"{path}: not {KINDS}")


def read_bundle(path: Path) -> dict[str, Any]:
    """A bundle: its architecture, the facts of its making, its files."""
    config = read_json(path / "config.json") or {}
    if "format_version" not in config:
        raise UserError(f"{path / 'config.json'}: not a bundle's; it has no format_version")
    files = config.pop("files", {})
    if config.get("kind") == "vectors":
        return read_vectors(path, config, files)
    kind = config.pop("kind", "translation")
    return {
        "kind": TEXT_KINDS.get(kind, "bundle"),
        "path": str(path),
        "sha256": file_sha256(path / "config.json"),
        **config,
        **tensors(path / "model.safetensors"),
        "files": sizes(files),
    }


def read_vectors(path: Path, config: dict[str, Any], files: Mapping[str, Any]) -> dict[str, Any]:
    """A bundle of word vectors: method, words, the most frequent ones, scores, what it was made from, its files."""
    stored = read_json(path / "words.json") or {}
    frequent = list(zip(stored.get("words", []), stored.get("counts", []), strict=False))[:FREQUENT]
    table = config.pop("table", {})
    return {
        "kind": "word vectors",
        "path": str(path),
        "sha256": file_sha256(path / "config.json"),
        "method": config.get("model", {}).get("name", config.get("architecture")),
        "words": table.get("words"),
        "width": table.get("width"),
        "sparse": table.get("sparse"),
        "most_frequent": [f"{word} {count:,}" for word, count in frequent],
        **{key: value for key, value in config.items() if key != "kind"},
        **tensors(path / "model.safetensors"),
        "files": sizes(files),
    }


def sizes(files: Mapping[str, Any]) -> dict[str, str]:
    """A bundle's list of files in words."""
    return {name: f"{entry['bytes']:,} bytes, sha256 {entry['sha256'][:12]}" for name, entry in files.items()}


def read_checkpoint(path: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A checkpoint: where in the run it stands, its files, the tensors of the network or the tables of words."""
    held = next((path / name for name in WEIGHTS if name in manifest["files"]), None)
    return {
        "kind": "checkpoint",
        "path": str(path),
        **{key: value for key, value in manifest.items() if key != "files"},
        "state": brief(read_json(path / checkpoints.STATE)),
        "files": {name: f"{size(path / name)}, sha256 {digest[:12]}" for name, digest in manifest["files"].items()},
        **(tensors(held) if held and held.is_file() else {}),
    }


def read_run(path: Path) -> dict[str, Any]:
    """A run's folder: its checkpoints, the last line of its journal, its MLflow run."""
    found = [entry.name for entry in checkpoints.every(path).values()]
    journal = JournalReader(path / paths.STEPS)
    last = None
    for line in journal.lines():
        last = line
    notes = journal.notes
    start = read_word(path / paths.ATTEMPT)
    return {
        "kind": "run",
        "path": str(path),
        "starts": int(start) if start and start.isdecimal() else None,
        "checkpoints": found,
        "newest": found[-1] if found else None,
        "last_line": last,
        "mlflow": read_object(path / paths.TRACKED, notes) or None,
        "bundle": str(path / paths.BUNDLE) if is_released(path) else None,
        **({"damaged": notes} if notes else {}),
    }


def tensors(path: Path) -> dict[str, Any]:
    """Names, types and shapes from a safetensors header, and the number of parameters.

    Raises:
        UserError: it is not a safetensors file.
    """
    try:
        with safe_open(path, framework="np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  # no mapping
            return {
                "parameters": sum(math.prod(one.get_shape()) for one in slices.values()),
                "tensors": {name: f"{one.get_dtype()} {one.get_shape()}" for name, one in slices.items()},
            }
    except OSError as problem:
        raise UserError(f"{path}: cannot be read ({problem})") from None
    except SafetensorError as problem:
        raise UserError(f"{path}: not a safetensors file ({problem})") from None


def check(path: Path) -> int:
    """Compare every file that the directory lists with its sha256; how many there were.

    Raises:
        UserError: the first one that is missing or is not the one that was written; or nothing is listed.
    """
    directory = path.parent if path.is_file() else path
    expected = listed_files(directory)
    if path.is_file():
        expected = {name: digest for name, digest in expected.items() if name == path.name}
    if not expected:
        raise UserError(f"{path}: nothing beside it says what its sha256 should be")
    for name, digest in sorted(expected.items()):
        file = directory / name
        if not file.resolve().is_relative_to(directory.resolve()):
            raise UserError(f"{directory}: lists {name!r}, which lies outside of it")
        if not file.is_file():
            raise UserError(f"{file}: is listed but missing")
        found = file_sha256(file)
        if found != digest:
            raise UserError(f"{file}: not the file that was written (sha256 {found[:12]}, expected {digest[:12]})")
    return len(expected)


def listed_files(directory: Path) -> dict[str, str]:
    """File name -> sha256 (hex) of what the directory's own records list."""
    manifest = read_json(directory / MANIFEST) or {}
    if "splits" in manifest:
        return verify.listed_files(read_manifest(directory))
    if "step" in manifest:
        return dict(manifest["files"])
    files = (read_json(directory / "config.json") or {}).get("files", {})
    return {name: entry["sha256"] for name, entry in files.items()}


def brief(value: Any, longest: int = 60) -> Any:
    """The same with long lists and texts (random states) cut to how long they are."""
    if isinstance(value, dict):
        return {key: brief(entry, longest) for key, entry in value.items()}
    if isinstance(value, list) and len(value) > 12:
        return f"({len(value)} values)"
    if isinstance(value, str) and len(value) > longest and not re.fullmatch(r"[0-9a-f]{64}", value):
        return f"{value[:20]}... ({len(value)} characters)"
    return value


def size(path: Path) -> str:
    """Its size in words."""
    return f"{path.stat().st_size:,} bytes" if path.is_file() else "missing"
