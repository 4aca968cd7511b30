"""Starts `dragoman sweep train OVERRIDES...`; loads the search libraries only when the work begins."""

import importlib
import re
import sys
from collections.abc import Sequence

from dragoman.conf import compose
from dragoman.model.errors import UserError, unknown
from dragoman.model.names import check_name
from dragoman.services.sweeps.settings import SweepRoot
from dragoman.services.sweeps.space import read_space, read_words

OURS = re.compile(r"[+~]*(sweep[.=]|jobs[.=]|name=)")  # the sweep's own words; all others are the trials'
TRIES = ("train",)  # commands with a curve to judge by


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns its exit code."""
    verb, *words = argv if argv and not argv[0].startswith("-") and "=" not in argv[0] else ("", *argv)
    options = [word for word in words if word.startswith("-")]
    ours = [word for word in words if OURS.match(word)]
    try:
        if options:  # Hydra's own, which need no search: one trial represents all
            theirs = [word for word in words if "=" in word and word not in (*options, *ours)]
            rest = [word for word in words if word not in theirs]
            return compose.run(lambda _: None, SweepRoot, [*read_words(theirs).example(), *rest], "sweep")
        if not verb:
            raise UserError("say which verb: dragoman sweep train 'model.dropout=choice(0.1,0.3)' [key=value ...]")
        if verb not in TRIES:
            raise unknown("sweep: verb", verb, TRIES)
        space = read_space([word for word in words if not OURS.match(word)])
    except UserError as problem:
        print(f"dragoman sweep: {problem}", file=sys.stderr)
        return compose.USER_MISTAKE

    def check(root: SweepRoot) -> None:
        root.sweep.check()
        check_name("name", f"{root.name}-000")
        if root.sweep.sampler == "grid":
            space.grid()

    def work(root: SweepRoot) -> int:
        check(root)
        code: int = importlib.import_module("dragoman.services.sweeps.sweep").sweep(root, space)
        return code

    # With the trials' words: they determine the sweep's name, folder and MLflow, and misspelt keys are refused here.
    return compose.run(work, SweepRoot, [*space.example(), *ours], "sweep", check)
