"""A bundle by address: its config.json, then each file that it names, checked, in a folder that stands for it."""

import json
from pathlib import Path

from model.bundles.directory import CONFIG
from model.errors import UserError
from model.storage.mirror import bring, bring_checked, local_folder, remote_of


def bring_bundle(directory: Path) -> None:
    """Have the bundle that stands at the directory's address, if one does; a plain folder is as it is.

    Raises:
        UserError: a file is not the one that config.json names.
        RefusedError, AwayError: as `model.storage.remote`.
    """
    if remote_of(directory) is None:
        return
    bring(directory / CONFIG, keep=True)
    try:
        files = json.loads((directory / CONFIG).read_bytes())["files"]
        wanted = [(str(name), int(entry["bytes"]), str(entry["sha256"])) for name, entry in files.items()]
    except (FileNotFoundError, ValueError, KeyError, TypeError):  # no bundle: whoever opens it says so
        return
    for name, size, sha256 in wanted:
        path = directory / name
        if not path.resolve().is_relative_to(directory.resolve()):
            raise UserError(f"{directory / CONFIG}: files: {name!r} lies outside the bundle")
        bring_checked(path, size, sha256)


def bundle_folder(place: str, cache: str | Path) -> Path:
    """The folder of this machine that holds the bundle at `place`, a path or an address. Raises as `bring_bundle`."""
    directory = local_folder(place, str(cache))
    bring_bundle(directory)
    return directory
