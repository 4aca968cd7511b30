"""Bundles at an address: downloads config.json, then each file that it names, checked, into a local folder."""

import json
from pathlib import Path

from dragoman.model.bundles.directory import CONFIG
from dragoman.model.errors import UserError
from dragoman.model.storage.mirror import remote_of
from dragoman.model.storage.places import local_folder


def bring_bundle(directory: Path) -> None:
    """Downloads the bundle at the directory's address, if it stands for one; leaves a plain folder alone.

    Raises RefusedError, AwayError: as `dragoman.model.storage.remote`.
    """
    if remote_of(directory) is None:
        return
    from dragoman.model.storage.transfers import bring, bring_checked  # with the libraries of addresses

    bring(directory / CONFIG, keep=True)
    try:
        files = json.loads((directory / CONFIG).read_bytes())["files"]
        entries = [(str(name), int(entry["bytes"]), str(entry["sha256"])) for name, entry in files.items()]
    except (FileNotFoundError, ValueError, KeyError, TypeError):  # no bundle: the caller that opens it reports this
        return
    for name, size, sha256 in entries:
        path = directory / name
        if not path.resolve().is_relative_to(directory.resolve()):
            raise UserError(f"{directory / CONFIG}: files: {name!r} lies outside the bundle")
        bring_checked(path, size, sha256)


def bundle_folder(place: str, cache: str | Path) -> Path:
    """Returns the local folder that holds the bundle at `place`, a path or an address."""
    directory = local_folder(place, str(cache))
    bring_bundle(directory)
    return directory
