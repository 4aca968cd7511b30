"""A shard directory that keeps held-out texts and nothing else."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.model.files import file_sha256
from dragoman.model.shards.manifest import Manifest, write_manifest


def keep_texts(folder: Path, texts: Mapping[str, Mapping[str, Sequence[str]]], **more: Any) -> Path:
    """Writes the lines of each split and language, and a manifest; `more`: other fields of it."""
    folder.mkdir(exist_ok=True)
    written: dict[str, dict[str, Any]] = {}
    for split, sides in texts.items():
        written[split] = {}
        for language, lines in sides.items():
            path = folder / f"{split}.{language}.txt"
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            written[split][language] = {"file": path.name, "sha256": file_sha256(path), "lines": len(lines)}
    languages = list(next(iter(texts.values())))
    fields: dict[str, Any] = {"corpus": "toy", "tokenizer": {"files": []}, "dtype": "<u2", "splits": {}, **more}
    write_manifest(folder, Manifest(languages=languages, texts=written, **fields))
    return folder
