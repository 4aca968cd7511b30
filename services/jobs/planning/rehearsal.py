"""Lets a command read and check its command line without doing its work."""

import io
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from dragoman.conf import compose
from dragoman.conf.again import remembered
from dragoman.model.errors import UserError
from dragoman.services.verbs import run_verb

UNSEEN = "paths.root=out-of-sight"  # for a command whose inputs are still to be made: only its settings are checked


def rehearse(verb: str, words: Sequence[str]) -> dict[str, Any]:
    """Checks the words of a command; returns its configuration, with what its shards and their size settle.

    Raises UserError: in the command's own words.
    """
    said = io.StringIO()
    with compose.rehearsal() as settled, remembered(words), redirect_stderr(said), redirect_stdout(said):
        code = run_verb(verb, words)
    if code != compose.OK:
        lines = said.getvalue().strip().splitlines() or [f"exit code {code}"]
        raise UserError(lines[-1].removeprefix(f"dragoman {verb}: "))
    return settled
