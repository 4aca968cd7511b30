"""Ends what a killed `dragoman up` leaves running: `python -m services.jobs.child_guard MARK FOLDER`.

It waits until its standard input ends. That is when the `up` at the other end has gone, whatever ended it.
"""

import shutil
import signal
import sys
from collections.abc import Sequence

from services.jobs.children import end_marked


def main(argv: Sequence[str]) -> int:
    """Wait, then end the processes with this mark and remove the folder of their sockets."""
    mark, folder = argv
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    end_marked(mark)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
