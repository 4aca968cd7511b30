"""Runs a job's command in a confined process: checks the plan again, gives up other files, then begins.

    python -m dragoman.services.jobs.confined VERB WORD...

A link may have changed between the plan and the start. So every file that the words lead to now must be one that the
service has granted. Then the process confines itself, see `model/confinement.py`, and Ray's token is removed from
where it could be read: a command that needs no Ray has no token.
"""

import importlib
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dragoman.conf import compose
from dragoman.conf.endings import run_process
from dragoman.model import landlock
from dragoman.model.confinement import Grant, confine, read_grant
from dragoman.model.errors import UserError
from dragoman.services.jobs.planning.refusals import (
    SPREADING,
    Areas,
    check_values,
    check_words,
    job_root,
    shipped_words,
)

TOKEN, TOKEN_PATH = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
ADDRESS = "cluster.address=auto"  # the service's own word, for commands that ask the cluster for workers


def main(argv: Sequence[str]) -> int:
    """Returns the exit code of the command, or 2 if it is refused."""
    verb, *words = argv
    grant = read_grant()
    if grant is not None:
        try:
            check_again(verb, words, grant)
        except UserError as problem:
            print(f"dragoman {verb}: {problem}", file=sys.stderr)
            return compose.USER_MISTAKE
        keep_token(verb in SPREADING and ADDRESS in words)
        if landlock.version():
            confine(grant, tempfile.gettempdir())
    code: int = importlib.import_module("dragoman.services.cli").main([verb, *words], planned=True)
    return code


def check_again(verb: str, words: Sequence[str], grant: Grant) -> None:
    """Refuses a job whose words lead to other files than when it was planned."""
    words_left = [word for word in words if word != ADDRESS]
    check_words(verb, words_left)
    home, *roots = map(Path, grant.roots)
    areas = Areas(home, tuple(roots), tuple(map(Path, grant.secrets)))
    shipped = compose.values(shipped_words(words_left), job_root())
    for place in check_values(verb, words_left, compose.values(words_left, job_root()), shipped, areas):
        reads = place["use"] in ("read", "start", "maybe")
        granted = (*grant.read, *grant.write) if reads else grant.record if place["use"] == "record" else grant.write
        missing = place["use"] == "maybe" and not os.path.lexists(place["path"])
        own = place["use"] == "cache"  # of this node, as its administrator has set it
        if not missing and not own and not any(Path(place["path"]).is_relative_to(folder) for folder in granted):
            setting = f"{place['key']}={place['value']}"
            raise UserError(f"{setting}: leads elsewhere than when the job was planned; submit it again")


def keep_token(needed: bool) -> None:
    """Keeps Ray's token in this process's memory if it is needed, and removes it everywhere else."""
    path = Path(os.environ.pop(TOKEN_PATH, "") or Path.home() / ".ray" / "auth_token")  # Ray's default
    if not needed:
        os.environ.pop(TOKEN, None)
    elif TOKEN not in os.environ and path.is_file():
        os.environ[TOKEN] = path.read_text(encoding="utf-8").strip()


if __name__ == "__main__":
    run_process(lambda: main(sys.argv[1:]))
