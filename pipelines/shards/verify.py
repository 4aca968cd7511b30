"""Is a shard directory still what its manifest says? Every byte is read."""

from pathlib import Path

from model.errors import UserError
from pipelines.shards.manifest import Manifest, read_manifest
from pipelines.shards.writer import file_sha256


def listed_files(manifest: Manifest) -> dict[str, str]:
    """File name -> sha256 of all files of the directory: shards, tokenizers, held-out texts."""
    files = {entry.name: entry.sha256 for split in manifest.splits.values() for entry in split.shards}
    files.update({entry["file"]: entry["sha256"] for entry in manifest.tokenizer["files"]})
    files.update({text["file"]: text["sha256"] for texts in manifest.texts.values() for text in texts.values()})
    return files


def verify(directory: Path) -> int:
    """Check the sha256 of all files that the manifest names; how many there were.

    Raises:
        UserError: the first file that is missing or differs.
    """
    files = listed_files(read_manifest(directory))
    for name, sha256 in sorted(files.items()):
        path = directory / name
        if path.parent != directory:
            raise UserError(f"{path}: the manifest names a file outside of its directory")
        if not path.is_file():
            raise UserError(f"{path}: the manifest names this file, but it is missing")
        if file_sha256(path) != sha256:
            raise UserError(f"{path}: its sha256 is not the one in the manifest; the file was changed")
    return len(files)
