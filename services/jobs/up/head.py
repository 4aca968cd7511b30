"""Starts a Ray head and ends when a part of it ends: `python -m dragoman.services.jobs.up.head WORD...`.

`ray start --block` does the same and holds 120 MiB for it.
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

import psutil

ADOPT = 36  # prctl's PR_SET_CHILD_SUBREAPER: what `ray start` leaves becomes a child of this process


def main(argv: Sequence[str]) -> int:
    """Returns 1 when a part of the head has ended, or the code of a head that did not start."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(ADOPT, 1, 0, 0, 0)
    code = subprocess.run([sys.executable, "-m", "ray.scripts.scripts", "start", *argv], check=False).returncode
    parts = {part.pid for part in psutil.Process().children()}
    while not code:
        if not parts:  # only Linux has them adopted
            signal.pause()
        elif os.wait()[0] in parts:  # others are workers whose raylet has gone
            break
    return code or 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
