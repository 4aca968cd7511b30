"""The content of a shard or a directory of shards. A single shard is read as the plain tar that it is."""

import io
import itertools
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.model.errors import UserError
from dragoman.model.shards.layout import side_members, sidecar_name
from dragoman.model.shards.manifest import Manifest, has_manifest, manifest_hash, read_manifest
from dragoman.model.text.tokenizers import load_pair
from dragoman.model.untrusted import read_json

LARGEST_MEMBER = 2**31  # bytes
SIDES = {"parallel": ("source", "target"), "monolingual": ("text",)}


def read_shard_directory(path: Path) -> dict[str, Any]:
    """Reads all shards of a corpus, and the corpus and tokenizer of their making."""
    manifest = read_manifest(path)
    splits = {
        name: {
            "records": split.records,
            "source_tokens": split.source_tokens,
            "target_tokens": split.target_tokens,
            "shards": len(split.shards),
            "chunks": sum(len(entry.chunks) for entry in split.shards),
            "bytes": sum(entry.bytes for entry in split.shards),
            "missing": [entry.name for entry in split.shards if not (path / entry.name).is_file()],
        }
        for name, split in manifest.splits.items()
    }
    facts = {key: value for key, value in vars(manifest).items() if key not in ("splits", "config", "length_bounds")}
    facts["sides"] = facts.pop("kind")
    return {
        "kind": "shard directory",
        "path": str(path),
        "manifest_hash": manifest_hash(path),
        **facts,
        "splits": splits,
    }


def read_shard(path: Path, samples: int) -> dict[str, Any]:
    """Reads one shard: its chunks, the first records, and the manifest beside it."""
    try:
        with tarfile.open(path, "r:") as tar:
            chunks = _chunks(path, tar)
            first = next(iter(chunks.values()), {})
            arrays = {name: _array(path, tar, member) for name, member in first.items() if name.endswith(".npy")}
            counts = [_record(path, tar, chunk) for chunk in chunks.values()]
    except (tarfile.TarError, EOFError) as problem:
        raise UserError(f"{path}: truncated, or not a shard ({problem})") from None
    manifest = read_manifest(path.parent) if has_manifest(path.parent) else None
    entry = read_json(path.parent / sidecar_name(path.name)) or {}
    total = path.stat().st_size
    if entry and entry.get("bytes") != total:
        raise UserError(f"{path}: has {total:,} bytes where its record says {entry.get('bytes'):,}: truncated")
    made_from = ("corpus", "languages", "config_hash", "seed")
    return {
        "kind": "shard",
        "path": str(path),
        "bytes": total,
        "records": sum(count["n"] for count in counts),
        "first_id": counts[0]["first_id"] if counts else None,
        "chunks": len(chunks),
        "members": sorted(first),
        "sha256": entry.get("sha256"),
        "made_from": {key: getattr(manifest, key) for key in made_from} if manifest else None,
        "samples": _samples(path.parent, manifest, arrays, samples),
    }


def _chunks(path: Path, tar: tarfile.TarFile) -> dict[str, dict[str, tarfile.TarInfo]]:
    """Returns chunk key -> member extension -> member."""
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
    directory: Path, manifest: Manifest | None, arrays: Mapping[str, NDArray[Any]], count: int
) -> list[dict[str, str]]:
    """Returns the first records, as text if the tokenizer is beside the shard, else as ids."""
    kind = "monolingual" if "ids.npy" in arrays else "parallel"
    pair = load_pair(directory, manifest.tokenizer) if manifest else None
    sides: list[list[str]] = []
    for side, (ids, offsets) in enumerate(side_members(kind)):
        if ids not in arrays or offsets not in arrays:
            return []
        rows = [arrays[ids][first:end] for first, end in itertools.pairwise(arrays[offsets][: count + 1])]
        tokenizer = (pair.source, pair.target)[side] if pair else None
        sides.append(tokenizer.decode(rows) if tokenizer else [" ".join(map(str, row)) for row in rows])
    return [dict(zip(SIDES[kind], record, strict=True)) for record in zip(*sides, strict=True)]
