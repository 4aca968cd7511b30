"""The commit of the running checkout, read without git."""

import re
from pathlib import Path

HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def git_commit(start: Path = Path(__file__)) -> str | None:
    """Returns the hash of HEAD in the repository around `start`.

    None outside a repository (an installed package), or if this process may not read it."""
    try:
        return _find_commit(start)
    except PermissionError:
        return None


def _find_commit(start: Path) -> str | None:
    for folder in start.resolve().parents:
        marker = folder / ".git"
        if marker.is_dir():
            return _head(marker, marker)
        if marker.is_file():  # a worktree or submodule: the file names the folder
            place = folder / marker.read_text(encoding="utf-8").partition(":")[2].strip()
            common = place / "commondir"
            return _head(place, place / common.read_text(encoding="utf-8").strip() if common.exists() else place)
    return None


def _head(folder: Path, common: Path) -> str | None:
    head = folder / "HEAD"
    content = head.read_text(encoding="utf-8").strip() if head.exists() else ""
    if not content.startswith("ref:"):
        return _hash(content)
    name = content.partition(":")[2].strip()
    for place in (folder, common):
        if (place / name).is_file():
            return _hash((place / name).read_text(encoding="utf-8"))
    packed = common / "packed-refs"
    lines = packed.read_text(encoding="utf-8").splitlines() if packed.exists() else []
    return next((_hash(line.partition(" ")[0]) for line in lines if line.endswith(f" {name}")), None)


def _hash(text: str) -> str | None:
    return text.strip() if HASH.fullmatch(text.strip()) else None
