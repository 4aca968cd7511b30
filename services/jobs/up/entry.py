"""`dragoman up`: job service, Ray, MLflow and endpoint on one machine, until Ctrl-C; a restart resumes the queue.

Prints one line per address on standard output. A first Ctrl-C makes running jobs yield, with a checkpoint, and ends
everything; a second one does not wait for checkpoints.
"""

import importlib
import re
from collections.abc import Sequence

from dragoman.conf import compose
from dragoman.services.jobs.settings import UpRoot


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns its exit code. Loads the working modules only when the work begins."""
    overrides = [word for word in argv if not re.match(r"[+~]*(service|jobs)[.=]", word)]

    def work(root: UpRoot) -> int:
        code: int = importlib.import_module("dragoman.services.jobs.up.serving").up(root, overrides)
        return code

    return compose.run(work, UpRoot, argv, "up", lambda root: root.service.check())
