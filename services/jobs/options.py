"""The words of a submission: overrides of the job, and `jobs.` words that say how it is queued."""

import getpass
import os
import re
from collections.abc import Sequence

from dragoman.conf.again import key_of

KEPT = ("priority", "owner", "after", "retries", "max_hours", "tags")  # fields of the form


def is_option(word: str) -> bool:
    """Returns True if a word is for the service, and no override of the job."""
    return re.match(r"[+~]*jobs[.=]", word) is not None


def merge_words(first: Sequence[str], later: Sequence[str]) -> list[str]:
    """Returns both, without those of `first` whose key stands in `later` too: later words win, as in Hydra."""
    keys = {key_of(word) for word in later}
    return [*(word for word in first if key_of(word) not in keys), *later]


def this_user() -> str:
    """Returns the name of this process's user; the number of a container's user without a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
