"""Starts a Ray head and ends when a part of it ends: `python -m dragoman.services.jobs.up.head WORD...`.

`ray start --block` does the same and holds 120 MiB for it.
"""

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Sequence

import psutil

LOOK = 1.0  # seconds between two looks
ADOPT = 36  # prctl's PR_SET_CHILD_SUBREAPER: what `ray start` leaves becomes a child of this process


def main(argv: Sequence[str]) -> int:
    """Returns 1 when a part of the head has ended, or the code of a head that did not start."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(ADOPT, 1, 0, 0, 0)
    code = subprocess.run([sys.executable, "-m", "ray.scripts.scripts", "start", *argv], check=False).returncode
    parts = psutil.Process().children()
    while not code and all(part.is_running() and part.status() != psutil.STATUS_ZOMBIE for part in parts):
        time.sleep(LOOK)
        while any(other.status() == psutil.STATUS_ZOMBIE for other in _others(parts)):
            os.waitpid(-1, os.WNOHANG)
    return code or 1


def _others(parts: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Returns the children that came later: workers whose raylet has gone."""
    return [child for child in psutil.Process().children() if child not in parts]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
