"""The command line, as `dragoman` and as `python -m dragoman`."""

import os
import sys


def entry() -> None:
    """Runs the console script."""
    # Programs that a command starts (`python -m ...`) must not import modules of the folder where they start.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    from dragoman.conf.endings import run_process

    def work() -> int:
        from dragoman.services.cli import main

        return main(sys.argv[1:])

    run_process(work)  # signals are heard while the command line is loaded, too


if __name__ == "__main__":
    entry()
