"""Finds the bundles of runs."""

from collections.abc import Iterator
from pathlib import Path

from model.bundles.directory import CONFIG
from model.bundles.download import bring_bundle
from model.runs.paths import BUNDLE
from model.storage.mirror import local_folder
from model.storage.places import is_address


def is_released(run: Path) -> bool:
    """Returns True if the run has a bundle."""
    return (run / BUNDLE / CONFIG).is_file()


def bundles(runs: Path) -> Iterator[Path]:
    """Yields the bundles of all runs below `runs`."""
    return (path.parent for path in runs.glob(f"*/{BUNDLE}/{CONFIG}"))


def find_bundle(reference: str, runs: Path, cache: Path) -> Path | None:
    """Returns the bundle that is a directory or an address, or that of a run's folder or name; None for no such bundle.

    One at an address is fetched into `cache`.
    """
    if is_address(reference):
        given = local_folder(reference, str(cache))
        places = [given, given / BUNDLE]
    else:
        places = [Path(reference), Path(reference) / BUNDLE, runs / reference / BUNDLE]
    for directory in places:
        bring_bundle(directory)
        if (directory / CONFIG).is_file():
            return directory
    return None
