"""Finds the bundles of runs."""

from collections.abc import Iterator
from pathlib import Path

from dragoman.model.bundles.directory import CONFIG, is_bundle
from dragoman.model.bundles.download import bring_bundle
from dragoman.model.runs.paths import BUNDLE
from dragoman.model.storage.places import is_address, local_folder


def has_bundle(run: Path) -> bool:
    """Returns True if the run has a bundle."""
    return (run / BUNDLE / CONFIG).is_file()


def bundles(runs: Path) -> Iterator[Path]:
    return (path.parent for path in runs.glob(f"*/{BUNDLE}/{CONFIG}"))


def find_bundle(reference: str, runs: Path, cache: Path) -> Path | None:
    """Returns the bundle that is a directory or an address, or that of a run's folder or name; None for no such bundle.

    One at an address is fetched into `cache`. A folder whose config.json is another program's is no bundle, unless
    nothing else has the name: whoever opens it says what is wrong.
    """
    if is_address(reference):
        folder = local_folder(reference, str(cache))
        places = [folder, folder / BUNDLE]
    else:
        places = [Path(reference), Path(reference) / BUNDLE, runs / reference / BUNDLE]
    other = None
    for directory in places:
        bring_bundle(directory)
        if is_bundle(directory):
            return directory
        if other is None and (directory / CONFIG).is_file():
            other = directory
    return other
