"""`dragoman clean`: finds old runs, bundles and translations that can be had again, and the sessions of ended Rays;
deletes them on agreement.

Never touches a run that a process works on, or one with records that have not reached MLflow.
"""

import logging
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from dragoman.conf import compose, showing
from dragoman.model.errors import UserError
from dragoman.model.ranges import Amount, check_ranges
from dragoman.services.commands.run_folders import AGE_AND_SIZE, extent, run_folders, size
from dragoman.services.jobs.client.table import show as show_table

DAY = 86400.0
JUST_STARTED = 3600.0  # seconds; a Ray session changed within this time may not have a process yet
logger = logging.getLogger(__name__)


@dataclass
class CleanConfig:
    """The places to search, and the age from which their folders count as old."""

    days: Amount = 30.0  # since the last change, for runs and downloaded bundles
    runs: str = "artifacts/runs"
    caches: list[str] = field(
        default_factory=lambda: ["artifacts/cache/models", "artifacts/cache/translations", "artifacts/versions"]
    )
    ray: str = "/tmp/ray"  # Ray's folder, for sessions that no process uses
    ask: bool = True  # false: delete without asking


@dataclass(frozen=True)
class Leftover:
    """A folder that may be deleted."""

    kind: str
    path: Path
    changed: float
    bytes: int


def main(argv: Sequence[str]) -> int:
    """Returns the command's exit code."""
    return compose.run_section(clean, "clean", CleanConfig, argv, "clean")


def clean(config: CleanConfig) -> int:
    """Shows what may be deleted, and deletes it if the user or `clean.ask=false` agrees."""
    check_ranges("clean", config)
    leftovers = [*old_runs(config), *old_bundles(config), *dead_sessions(Path(config.ray))]
    if not leftovers:
        showing.show([], lambda: "nothing to clean")
        return compose.OK
    total = f"{len(leftovers)} folders, {size(sum(run.bytes for run in leftovers))}"
    records = [{**vars(run), "path": str(run.path)} for run in leftovers]
    show_table(records, {"WHAT": "kind", "FOLDER": "path", **AGE_AND_SIZE}, total)
    if config.ask:
        if not sys.stdin.isatty():
            raise UserError(
                "clean.ask: nothing was deleted: there is no terminal to ask at; clean.ask=false deletes without asking"
            )
        if input("Delete them? [y/N] ").strip().lower() not in ("y", "yes"):
            showing.show([], lambda: "nothing was deleted")
            return compose.OK
    left = [run for run in leftovers if not _delete_folder(run)]
    showing.show([], lambda: f"deleted: {len(leftovers) - len(left)} of {total}")
    return compose.FAILED if left else compose.OK


def old_runs(config: CleanConfig) -> Iterator[Leftover]:
    """Yields runs without a change for so long."""
    for run in run_folders(Path(config.runs)):
        if time.time() - run.changed < config.days * DAY or run.alive:
            continue
        if run.unsent:
            logger.info("%s is kept: it has records that MLflow has not; `dragoman sync` sends them", run.path)
            continue
        yield Leftover("run", run.path, run.changed, run.bytes)


def old_bundles(config: CleanConfig) -> Iterator[Leftover]:
    """Yields downloaded bundles, CACHE/MODEL/VERSION, and translations, CACHE/BUNDLE/KEY; both come again."""
    for cache in map(Path, config.caches):
        for path in sorted(cache.glob("*/*")):
            changed, count = extent(path)
            if path.is_dir() and not path.is_symlink() and time.time() - changed >= config.days * DAY:
                kind = "translations" if cache.name == "translations" else "bundle"
                yield Leftover(kind, path, changed, count)


def dead_sessions(ray: Path) -> Iterator[Leftover]:
    """Yields our Ray sessions' folders that no process has on its command line."""
    lines = " ".join(" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
    for path in sorted(ray.glob("session_*")):
        if path.is_symlink() or not path.is_dir() or path.stat().st_uid != os.getuid() or path.name in lines:
            continue
        changed, count = extent(path)
        if time.time() - changed >= JUST_STARTED:
            yield Leftover("Ray session", path, changed, count)


def _delete_folder(leftover: Leftover) -> bool:
    try:
        shutil.rmtree(leftover.path)
    except OSError as problem:
        logger.warning("%s could not be deleted (%s)", leftover.path, problem.strerror)
        return False
    return True
