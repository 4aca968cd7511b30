"""Finds the run that records a shard job's result."""

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from dragoman.model.shards.manifest import MANIFEST
from dragoman.model.untrusted import open_regular
from dragoman.services.jobs.ledger.tables import Job

LARGEST = 64 << 20  # bytes of a manifest that is hashed


def sharding_run(job: Job) -> Path | None:
    """Returns the folder of the run that records a shard job's result; its name ends with the start of the manifest's
    sha256. None if the shards or the record are not made yet or cannot be seen.
    """
    folder = (job.plan or {}).get("run_dir")
    if not folder:
        return None
    digest = manifest_digest(Path(job.run.partition(" ")[2]))
    if digest is None:
        return None
    return next(iter(sorted(Path(folder).parent.glob(f"shard-*-{digest[:12]}"))), None)


def manifest_digest(folder: Path) -> str | None:
    """Returns the sha256 of a shard folder's manifest in hex; None if it cannot be read or is too large."""
    manifest = folder / MANIFEST
    try:
        status = manifest.stat()
        if status.st_size > LARGEST:
            return None
        return _sha256(manifest, status.st_mtime_ns, status.st_size)
    except OSError:
        return None


@lru_cache(maxsize=4096)
def _sha256(path: Path, _changed: int, _size: int) -> str:
    """Returns the sha256 of a file as it was at that change, in hex."""
    with open_regular(path) as file:
        return hashlib.file_digest(cast("Any", file), "sha256").hexdigest()
