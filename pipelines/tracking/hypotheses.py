"""A version's translations of a held-out set: made for a decision, and stored with its run for reading."""

import hashlib
import logging
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from dragoman.model.bundles.directory import bundle_hash
from dragoman.pipelines.tracking.registry import Registry, Version

logger = logging.getLogger(__name__)

FOLDER = "hypotheses"
Translate = Callable[[Path, Sequence[str]], list[str]]  # bundle directory, lines -> translations


def file_name(split: str, sources: Sequence[str], bundle_digest: str) -> str:
    """Returns the name of the artifact with this bundle's translations of these lines."""
    digest = hashlib.sha256(bundle_digest.encode())
    for line in sources:
        digest.update(b"\n" + line.encode())
    return f"{FOLDER}/{split}-{digest.hexdigest()[:20]}.txt"


def hypotheses(
    registry: Registry, version: Version, split: str, sources: Sequence[str], translate: Translate
) -> list[str]:
    """Returns the version's translations of `sources`, made now by the registered bundle.

    Anybody may have written the translations stored with its run, so they are only compared and never decide.

    Raises UserError: the bundle differs from the registered one.
    """
    logger.info("version %s: translating %s, %s sentences", version.number, split, f"{len(sources):,}")
    with tempfile.TemporaryDirectory() as folder:
        bundle = registry.bundle(version, Path(folder))
        lines = [" ".join(line.split("\n")) for line in translate(bundle, sources)]
        name = file_name(split, sources, bundle_hash(bundle))
    stored = _read_stored(registry, version, name, len(sources))
    if stored is None:
        _store(registry, version, name, lines)
        return lines
    other = sum(line != kept for line, kept in zip(lines, stored, strict=True))
    if other:
        logger.warning(
            "version %s: %s of the %s translations stored with its run (%s) are not what it translates; those made now "
            "decide",
            version.number,
            f"{other:,}",
            f"{len(lines):,}",
            name,
        )
    return lines


def _read_stored(registry: Registry, version: Version, name: str, count: int) -> list[str] | None:
    try:
        if name not in (entry.path for entry in registry.client.list_artifacts(version.run_id, FOLDER)):
            return None
        with tempfile.TemporaryDirectory() as folder:
            path = registry.client.download_artifacts(version.run_id, name, folder)
            lines = Path(path).read_text(encoding="utf-8").split("\n")[:-1]
    except Exception as problem:  # a deleted run or a store that is away: translate again
        logger.info("version %s: stored translations cannot be read (%s)", version.number, type(problem).__name__)
        return None
    return lines if len(lines) == count else None


def _store(registry: Registry, version: Version, name: str, lines: Sequence[str]) -> None:
    try:
        registry.client.log_text(version.run_id, "".join(f"{line}\n" for line in lines), name)
    except Exception as problem:  # only the next comparison is slower
        logger.info("version %s: translations cannot be stored (%s)", version.number, type(problem).__name__)
