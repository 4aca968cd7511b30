"""`dragoman inspect PATH`: the content and origin of shards, a bundle, a checkpoint, a run or a safetensors file.

Reads JSON and headers, and the first records of shards; loads no weights and executes nothing.
"""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError, safe_open

from dragoman.conf import compose
from dragoman.model.bundles.directory import CONFIG, WEIGHTS, is_bundle
from dragoman.model.bundles.download import bundle_folder
from dragoman.model.errors import UserError
from dragoman.model.files import file_sha256
from dragoman.model.ranges import Whole
from dragoman.model.runs import checkpoints, paths
from dragoman.model.runs.bundles import has_bundle
from dragoman.model.runs.lines import JournalReader
from dragoman.model.schema import NO_SETTING
from dragoman.model.shards.manifest import MANIFEST, manifest_hash, read_manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.model.untrusted import read_json, read_object
from dragoman.services.models.home import Home, run_section
from dragoman.services.models.registry import Registry, is_registered

KINDS = "a shard directory, a bundle, a checkpoint, a run directory, a .safetensors file"
TOKENS, ROWS = 128, 8  # of a batch whose cost is counted and measured
FREQUENT = 12  # word vectors' words to show


@dataclass
class InspectConfig:
    """The form and the extent of a description."""

    format: Literal["text", "json"] = field(default="text", metadata=NO_SETTING)
    samples: Whole = 2  # records of shards
    parameters: bool = False  # of a network: every matrix with shape, formula and share; the cost of a step by part
    home: Home = field(default_factory=Home, kw_only=True, metadata=NO_SETTING)


def main(argv: Sequence[str]) -> int:
    """Returns the command's exit code. The first word may be the path itself."""
    words = list(argv)
    first = words[0] if words and not words[0].startswith("-") else "="
    path = words.pop(0) if "=" not in first or "://" in first.partition("=")[0] or Path(first).exists() else None
    return run_section(lambda config: inspect(config, path), "inspect", InspectConfig, words, "inspect")


def inspect(config: InspectConfig, name: str | None = None) -> int:
    """Prints the content of a path, a run or a version."""
    if name is None:
        raise UserError(f"say what to look at: dragoman inspect PATH ({KINDS}, a run's name, or models:/NAME@ALIAS)")
    path, facts = find(config, name)
    if config.parameters:
        facts |= parameters(path)
    else:
        facts |= contents(path, config.samples)
    print(json.dumps(facts, ensure_ascii=False) if config.format == "json" else as_text(facts))
    return compose.OK


def find(config: InspectConfig, name: str) -> tuple[Path, dict[str, Any]]:
    """Returns the local path that a name stands for, and of a registered version its names."""
    if is_registered(name):
        registry = Registry(config.home.tracking, Path(config.home.cache))
        version = registry.resolve(name)
        return registry.fetch(version), {"registered": {"name": version.name, "version": version.version}}
    run = Path(config.home.runs) / name
    if run.is_dir() and name == run.name:  # ./NAME is a folder here
        return (run if (run / paths.RECORD).is_file() else run / paths.BUNDLE), {}  # the latter of an import
    return bundle_folder(name, config.home.cache), {}


def contents(path: Path, samples: int = 2) -> dict[str, Any]:
    """Returns the kind and content of `path`."""
    if not path.exists():
        raise UserError(f"{path}: no such file or directory")
    if path.suffix == ".safetensors" and path.is_file():
        return {"kind": "weights", "path": str(path), **tensors(path)}
    manifest = read_json(path / MANIFEST) or {} if path.is_dir() else {}
    if "splits" in manifest:
        return read_shards(path, samples)
    if "step" in manifest:
        return read_checkpoint(path, manifest)
    if is_bundle(path):
        return read_bundle(path)
    if (path / paths.CHECKPOINTS).is_dir() or (path / paths.STEPS).is_file():
        return read_run(path)
    raise UserError(f"{path}: not {KINDS}")


def read_shards(path: Path, samples: int) -> dict[str, Any]:
    """Returns the manifest of a shard directory, its splits in short, and the first records of the first split."""
    manifest = read_manifest(path)
    facts = {key: value for key, value in vars(manifest).items() if key not in ("splits", "config", "length_bounds")}
    facts["sides"] = facts.pop("kind")
    splits = {
        name: {
            "records": split.records,
            "source_tokens": split.source_tokens,
            "target_tokens": split.target_tokens,
            "shards": len(split.shards),
            "bytes": sum(entry.bytes for entry in split.shards),
        }
        for name, split in manifest.splits.items()
    }
    pair = load_pair(path, manifest.tokenizer)
    rows = (row for chunk in ShardReader(path, next(iter(splits))) for row in chunk.rows())
    records = [
        {"source": pair.source.decode([source])[0], "target": pair.target.decode([target])[0]}
        for source, target in itertools.islice(rows, samples)
    ]
    kind = {"kind": "shard directory", "path": str(path), "manifest_hash": manifest_hash(path)}
    return {**kind, **facts, "splits": splits, "samples": records}


def read_bundle(path: Path) -> dict[str, Any]:
    """Returns the facts of a bundle, its tensors, and of word vectors the most frequent words."""
    config = read_json(path / CONFIG) or {}
    files = config.pop("files", {})
    facts: dict[str, Any] = {"kind": "bundle", "path": str(path), "sha256": file_sha256(path / CONFIG)}
    facts["holds"] = config.pop("kind", "translation")
    if facts["holds"] == "vectors":
        stored = read_json(path / "words.json") or {}
        frequent = list(zip(stored.get("words", []), stored.get("counts", []), strict=False))[:FREQUENT]
        facts["most_frequent"] = [f"{word} {count:,}" for word, count in frequent]
    return {**facts, **config, **tensors(path / WEIGHTS), "files": list(files)}


def read_checkpoint(path: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a checkpoint's step and its tensors by file."""
    facts = {key: value for key, value in manifest.items() if key != "files"}
    held = sorted(name for name in manifest["files"] if name.endswith(".safetensors") and (path / name).is_file())
    return {"kind": "checkpoint", "path": str(path), **facts, "files": {name: tensors(path / name) for name in held}}


def read_run(path: Path) -> dict[str, Any]:
    """Returns a run's checkpoints, the last line of its journal, its MLflow run and its bundle."""
    names = [entry.name for entry in checkpoints.every(path).values()]
    journal = JournalReader(path / paths.STEPS)
    last = None
    for line in journal.lines():
        last = line
    notes = journal.notes
    return {
        "kind": "run",
        "path": str(path),
        "checkpoints": names,
        "last_line": last,
        "mlflow": read_object(path / paths.TRACKED, notes) or None,
        "bundle": str(path / paths.BUNDLE) if has_bundle(path) else None,
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


def as_text(values: Mapping[str, Any], indent: str = "") -> str:
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
            listed = ", ".join(map(str, value)) if isinstance(value, list) else value
            text = f"{listed:,}" if isinstance(listed, int) and not isinstance(listed, bool) else str(listed)
            rows.append(f"{indent}{key:<{width}}  {'-' if listed in (None, '', {}) else text}".rstrip())
    return "\n".join(rows)


def parameters(path: Path) -> dict[str, Any]:
    """Returns every matrix of the network of a bundle or a run, and the cost of a step by part, as plain values."""
    from dragoman.model.inference.kinds import open_bundle  # loads torch, which files need not
    from dragoman.model.networks.network import Network, TranslationNetwork
    from dragoman.model.networks.parts import FORWARD, matrices_of_lectures, parts, step_costs

    directory = path if (path / CONFIG).is_file() else path / paths.BUNDLE
    if not (directory / CONFIG).is_file():
        raise UserError(f"inspect.parameters: {path} is no bundle and no run with one")
    bundle: Any = open_bundle(directory)
    network = getattr(bundle, "network", None)
    if not isinstance(network, Network):
        raise UserError(f"inspect.parameters: {directory} holds word vectors, which are one table and no network")
    every = parts(network)
    total = sum(part.parameters for part in every)
    rows = [
        {
            "part": part.part,
            "matrices": part.matrices,
            "shape": " x ".join(f"{size:,}" for size in part.shape),
            "formula": part.formula,
            "parameters": f"{part.parameters:,}",
            "share": f"{part.parameters / total:.1%}",
        }
        for part in every
    ]
    facts: dict[str, Any] = {
        "kind": "parameters",
        "path": str(directory),
        "matrices": rows,
        "parameters": total,
        "without_biases_norms_positions": matrices_of_lectures(every),
    }
    if not isinstance(network, TranslationNetwork):  # whose step needs two texts
        length = min(TOKENS, getattr(network, "max_positions", None) or TOKENS)
        costs = step_costs(network, ROWS, length)
        whole = next(cost for cost in costs if cost.part == FORWARD)
        facts["step"] = f"{ROWS} rows of {length} tokens; shares are of the forward pass"
        facts["costs"] = [
            {
                "part": cost.part,
                "operations": f"{cost.flops:,}",
                "of_operations": f"{cost.flops / max(1, whole.flops):.1%}",
                "seconds": f"{cost.seconds:.4f}",
                "of_seconds": f"{cost.seconds / whole.seconds:.1%}",
            }
            for cost in costs
        ]
    return facts
