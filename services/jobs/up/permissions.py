"""Permissions of a home's files: only its user may read them."""

import contextlib
import os
import stat
from pathlib import Path

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def close_to_others(home: Path) -> None:
    """Removes all permissions of group and others from `home` and everything of this user below it.

    The home comes first, so that others cannot reach the rest any more. Links are not followed.
    """
    _close(home)
    for folder, folders, files in os.walk(home):
        for name in (*folders, *files):
            _close(Path(folder) / name)


def _close(path: Path) -> None:
    with contextlib.suppress(OSError):  # it is gone, or the file system has no permissions
        found = path.lstat()
        if found.st_uid == os.getuid() and not stat.S_ISLNK(found.st_mode) and found.st_mode & OTHERS:
            path.chmod(stat.S_IMODE(found.st_mode) & ~OTHERS)
