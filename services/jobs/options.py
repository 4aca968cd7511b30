"""The words of a submission: overrides of the job, and `jobs.` words that say how it is queued."""

import re
from collections.abc import Sequence

from dragoman.conf.again import key_of

# Options that a preset keeps; the others name the service, or are no part of a submission.
KEPT = ("priority", "project", "after", "retries", "max_hours", "by", "tags", "notify")
MOST_RUNS = 100  # jobs of an array
OPTION = re.compile(rf"jobs\.({'|'.join(KEPT)})=(.*)", re.DOTALL)


def is_option(word: str) -> bool:
    """Returns True if a word is for the service, and no override of the job."""
    return re.match(r"[+~]*jobs[.=]", word) is not None


def merge_words(first: Sequence[str], later: Sequence[str]) -> list[str]:
    """Returns both, without those of `first` whose key stands in `later` too: later words win, as in Hydra."""
    keys = {key_of(word) for word in later}
    return [*(word for word in first if key_of(word) not in keys), *later]
