"""What a shard or a directory of shards holds, read as its documented format says (a plain tar of npy members)."""

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from model.errors import UserError
from model.files import file_sha256
from model.text.tokenizers import load_pair

LARGEST_MEMBER = 2**31  # bytes
SIDES = {"src.npy": "source", "tgt.npy": "target", "ids.npy": "text"}


def read_json(path: Path) -> dict[str, Any]:
    """An object of a JSON file; empty where there is no such file.

    Raises:
        UserError: it is not JSON, or not an object.
    """
    try:
        values = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as problem:
        raise UserError(f"{path}: not JSON ({problem})") from None
    if not isinstance(values, dict):
        raise UserError(f"{path}: not a JSON object")
    return values


def read_shard_directory(path: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """All shards of a corpus, and the corpus and tokenizer they were made from."""
    splits = {}
    for name, split in manifest["splits"].items():
        shards = split["shards"]
        splits[name] = {
            "records": split["records"],
            "source_tokens": split["source_tokens"],
            "target_tokens": split["target_tokens"],
            "shards": len(shards),
            "chunks": sum(len(entry["chunks"]) for entry in shards),
            "bytes": sum(entry["bytes"] for entry in shards),
            "missing": [entry["name"] for entry in shards if not (path / entry["name"]).is_file()],
        }
    facts = {key: value for key, value in manifest.items() if key not in ("splits", "config", "length_bounds")}
    facts["sides"] = facts.pop("kind", "parallel")
    return {
        "kind": "shard directory",
        "path": str(path),
        "manifest_hash": file_sha256(path / "manifest.json"),
        **facts,
        "splits": splits,
    }


def read_shard(path: Path, samples: int) -> dict[str, Any]:
    """One shard: its chunks, the first records, and the manifest beside it.

    Raises:
        UserError: truncated, or not a shard: a member of another kind, arrays that do not fit each other.
    """
    try:
        with tarfile.open(path, "r:") as tar:
            chunks = _chunks(path, tar)
            first = next(iter(chunks.values()), {})
            arrays = {name: _array(path, tar, member) for name, member in first.items() if name.endswith(".npy")}
            counts = [_record(path, tar, chunk) for chunk in chunks.values()]
    except (tarfile.TarError, EOFError) as problem:
        raise UserError(f"{path}: truncated, or not a shard ({problem})") from None
    manifest = read_json(path.parent / "manifest.json")
    entry = read_json(path.with_suffix(".json"))
    total = path.stat().st_size
    if entry and entry.get("bytes") != total:
        raise UserError(f"{path}: has {total:,} bytes where its record says {entry.get('bytes'):,}: truncated")
    return {
        "kind": "shard",
        "path": str(path),
        "bytes": total,
        "records": sum(count["n"] for count in counts),
        "first_id": counts[0]["first_id"] if counts else None,
        "chunks": len(chunks),
        "members": sorted(first),
        "sha256": entry.get("sha256"),
        "made_from": {key: manifest.get(key) for key in ("corpus", "languages", "config_hash", "seed")}
        if manifest
        else None,
        "samples": _samples(path.parent, manifest, arrays, samples),
    }


def _chunks(path: Path, tar: tarfile.TarFile) -> dict[str, dict[str, tarfile.TarInfo]]:
    """Chunk key -> member extension -> member."""
    chunks: dict[str, dict[str, tarfile.TarInfo]] = {}
    end = 0
    for member in tar:
        key, _, extension = member.name.partition(".")
        if not member.isfile() or "/" in member.name or extension.rpartition(".")[2] not in ("npy", "json"):
            raise UserError(f"{path}: the member {member.name!r} is not one of a shard's")
        chunks.setdefault(key, {})[extension] = member
        end = member.offset_data + member.size
    if end > path.stat().st_size:
        raise UserError(f"{path}: truncated: its last member ends at byte {end:,} of {path.stat().st_size:,}")
    return chunks


def _record(path: Path, tar: tarfile.TarFile, chunk: Mapping[str, tarfile.TarInfo]) -> dict[str, int]:
    try:
        record = json.loads(_bytes(tar, chunk["json"]))
        return {"n": int(record["n"]), "first_id": int(record["first_id"])}
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{path}: a chunk without a record of its size: not a shard") from None


def _bytes(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    if file is None or member.size > LARGEST_MEMBER:
        raise tarfile.ReadError(f"member {member.name}")
    with file:
        return file.read()


def _array(path: Path, tar: tarfile.TarFile, member: tarfile.TarInfo) -> np.ndarray:
    try:
        return np.asarray(np.load(io.BytesIO(_bytes(tar, member)), allow_pickle=False))
    except (ValueError, EOFError) as problem:
        raise UserError(f"{path}: the member {member.name} is no array ({problem})") from None


def _samples(
    directory: Path, manifest: Mapping[str, Any], arrays: Mapping[str, np.ndarray], count: int
) -> list[dict[str, str]]:
    """The first records, in words where the tokenizer is beside the shard, else as ids."""
    sides = [name for name in SIDES if name in arrays]
    if not sides or count < 1:
        return []
    decoders = _decoders(directory, manifest)
    found = []
    offsets = {name: arrays[name.replace(".npy", "_off.npy") if name != "ids.npy" else "off.npy"] for name in sides}
    for row in range(min(count, *(len(offsets[name]) - 1 for name in sides))):
        record = {}
        for name in sides:
            ids = arrays[name][int(offsets[name][row]) : int(offsets[name][row + 1])].tolist()
            decode = decoders.get(name)
            record[SIDES[name]] = decode([ids])[0] if decode else " ".join(map(str, ids))
        found.append(record)
    return found


def _decoders(directory: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    if not manifest:
        return {}
    pair = load_pair(directory, manifest["tokenizer"])
    return {"src.npy": pair.source.decode, "tgt.npy": pair.target.decode, "ids.npy": pair.source.decode}
