"""Ends the processes that a killed `dragoman up` leaves: `python -m dragoman.services.jobs.up.child_guard MARK FOLDER`.

It waits for the end of its standard input, which comes when `up` has ended, for whatever reason.
"""

import shutil
import signal
import sys
from collections.abc import Sequence

from dragoman.services.jobs.up.children import end_marked


def main(argv: Sequence[str]) -> int:
    """Waits, then ends the processes with this mark and removes the folder of their sockets."""
    mark, folder = argv
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    end_marked(mark)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
