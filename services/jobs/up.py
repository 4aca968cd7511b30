"""`dragoman up`: job service, Ray, MLflow and endpoint on one machine, until Ctrl-C; the next goes on with the queue.

Where each listens is a line on standard output. A first Ctrl-C has what runs yield, with a checkpoint, and ends
everything; a second one does not wait for checkpoints.
"""

import importlib
import re
import sys
from collections.abc import Sequence

from conf import compose
from services.jobs.up_settings import UpRoot


def main(argv: Sequence[str]) -> int:
    """The verb's entry point; its exit code. What does the work is loaded when it begins."""
    words = [word for word in argv if not re.match(r"[+~]*(service|jobs)[.=]", word)]

    def work(root: UpRoot) -> int:
        code: int = importlib.import_module("services.jobs.serving").up(root, words)
        return code

    return compose.run(work, UpRoot, argv, "up", lambda root: root.service.check())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
