"""The command line, as `dragoman` and as `python -m dragoman`."""

import os


def entry() -> None:
    """Runs the console script."""
    # Programs that a command starts (`python -m ...`) must not find our packages in the folder where they start.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    from services.cli import entry as run

    run()


if __name__ == "__main__":
    entry()
