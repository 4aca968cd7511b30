"""The words of a submission: overrides of the job, and `jobs.` words that say how it is queued."""

import getpass
import os
import re
from collections.abc import Sequence

from dragoman.conf.again import key_of

OWNER = "paths.owner"  # the setting whose owner's shards, runs and models a command takes
KEPT = ("priority", "owner", "after", "retries", "max_hours", "tags")  # fields of the form


def is_option(word: str) -> bool:
    """Returns True if a word is for the service, and no override of the job."""
    return re.match(r"[+~]*jobs[.=]", word) is not None


def merge_words(first: Sequence[str], later: Sequence[str]) -> list[str]:
    """Returns both, without those of `first` whose key stands in `later` too: later words win, as in Hydra."""
    keys = {key_of(word) for word in later}
    return [*(word for word in first if key_of(word) not in keys), *later]


def owned_words(words: Sequence[str], owner: str) -> list[str]:
    """Returns the words with the one that says whose shards, runs and models a command takes; theirs wins."""
    says = not owner or any(key_of(word) == OWNER for word in words)
    return list(words) if says else [*words, f"{OWNER}={owner}"]


def this_user() -> str:
    """Returns the name of this process's user; the number of a container's user without a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
