"""Who may read the files of a home: its user alone."""

import contextlib
import os
import stat
from pathlib import Path

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def close_to_others(home: Path) -> None:
    """Take every permission of the group and of others from `home` and from everything of this user below it.

    The home itself comes first: from then on nobody else reaches the rest. Links are not followed.
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
