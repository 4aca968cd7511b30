"""The content and origin of a path, read only from JSON and headers: loads no weights, executes nothing.

Every reader returns plain values, in the order of display.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from dragoman.model.errors import UserError
from dragoman.model.files import file_sha256
from dragoman.model.runs import checkpoints, paths
from dragoman.model.runs.bundles import is_released
from dragoman.model.runs.lines import JournalReader
from dragoman.model.shards import verify
from dragoman.model.shards.manifest import MANIFEST, read_manifest
from dragoman.model.untrusted import read_json, read_object, read_word
from dragoman.services.commands.shard_contents import read_shard, read_shard_directory

KINDS = "a shard (.tar), a shard directory, a bundle, a checkpoint, a run directory, a .safetensors file"
WEIGHTS = ("network.safetensors", "tables.safetensors")  # a checkpoint's: a network's, or word vectors'
TEXT_KINDS = {
    "language": "language model",
    "masked": "masked language model",
    "labels": "model that labels",
}  # a bundle's kind -> its name
FREQUENT = 12  # word vectors' words to show


def contents(path: Path, samples: int = 2) -> dict[str, Any]:
    """Returns the kind and content of `path`. Raises UserError: `path` is missing, damaged, or none of the kinds."""
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
    """Reads a bundle: its architecture, facts and files."""
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
    """Reads a bundle of word vectors: method, words, the most frequent ones, scores, origin and files."""
    stored = read_json(path / "words.json") or {}
    frequent = list(zip(stored.get("words", []), stored.get("counts", []), strict=False))[:FREQUENT]
    table = config.pop("table", {})
    return {
        "kind": "word vectors",
        "path": str(path),
        "sha256": file_sha256(path / "config.json"),
        "method": config.get("model", {}).get("name", config.get("architecture")),
        **{key: table.get(key) for key in ("words", "width", "sparse")},
        "most_frequent": [f"{word} {count:,}" for word, count in frequent],
        **{key: value for key, value in config.items() if key != "kind"},
        **tensors(path / "model.safetensors"),
        "files": sizes(files),
    }


def sizes(files: Mapping[str, Any]) -> dict[str, str]:
    """Returns a bundle's list of files as text."""
    return {name: f"{entry['bytes']:,} bytes, sha256 {entry['sha256'][:12]}" for name, entry in files.items()}


def read_checkpoint(path: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Reads a checkpoint: its step, its files, the network's tensors or the tables of words."""
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
    """Reads a run's folder: its checkpoints, the last line of its journal, its MLflow run."""
    names = [entry.name for entry in checkpoints.every(path).values()]
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
        "checkpoints": names,
        "newest": names[-1] if names else None,
        "last_line": last,
        "mlflow": read_object(path / paths.TRACKED, notes) or None,
        "bundle": str(path / paths.BUNDLE) if is_released(path) else None,
        **({"damaged": notes} if notes else {}),
    }


def tensors(path: Path) -> dict[str, Any]:
    """Returns names, types and shapes from a safetensors header, and the number of parameters."""
    try:
        with safe_open(path, framework="np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  # no mapping
            return {
                "parameters": sum(math.prod(slice_.get_shape()) for slice_ in slices.values()),
                "tensors": {name: f"{slice_.get_dtype()} {slice_.get_shape()}" for name, slice_ in slices.items()},
            }
    except OSError as problem:
        raise UserError(f"{path}: cannot be read ({problem})") from None
    except SafetensorError as problem:
        raise UserError(f"{path}: not a safetensors file ({problem})") from None


def check(path: Path) -> int:
    """Checks the sha256 of every file that the directory lists; returns their number.

    Raises UserError: a file is missing or differs (names the first), or no file is listed.
    """
    directory = path.parent if path.is_file() else path
    expected = listed_files(directory)
    if path.is_file():
        expected = {name: digest for name, digest in expected.items() if name == path.name}
    if not expected:
        raise UserError(f"{path}: no file beside it records its sha256")
    for name, digest in sorted(expected.items()):
        file = directory / name
        if not file.resolve().is_relative_to(directory.resolve()):
            raise UserError(f"{directory}: lists {name!r}, which lies outside of it")
        if not file.is_file():
            raise UserError(f"{file}: is listed but missing")
        sha256 = file_sha256(file)
        if sha256 != digest:
            raise UserError(f"{file}: not the file that was written (sha256 {sha256[:12]}, expected {digest[:12]})")
    return len(expected)


def listed_files(directory: Path) -> dict[str, str]:
    """Returns file name -> sha256 (hex) from the directory's own records."""
    manifest = read_json(directory / MANIFEST) or {}
    if "splits" in manifest:
        return verify.listed_files(read_manifest(directory))
    if "step" in manifest:
        return dict(manifest["files"])
    files = (read_json(directory / "config.json") or {}).get("files", {})
    return {name: entry["sha256"] for name, entry in files.items()}


def brief(value: Any, longest: int = 60) -> Any:
    """Returns the value with long lists and texts (random states) replaced by their length."""
    if isinstance(value, dict):
        return {key: brief(entry, longest) for key, entry in value.items()}
    if isinstance(value, list) and len(value) > 12:
        return f"({len(value)} values)"
    if isinstance(value, str) and len(value) > longest and not re.fullmatch(r"[0-9a-f]{64}", value):
        return f"{value[:20]}... ({len(value)} characters)"
    return value


def size(path: Path) -> str:
    """Returns the file's size as text."""
    return f"{path.stat().st_size:,} bytes" if path.is_file() else "missing"
