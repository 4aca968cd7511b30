"""Names of runs, corpora and models, which become folders: one rule for all of them."""

import re

from dragoman.model.errors import UserError

LONGEST = 160  # bytes; a file name may have 255, and longer names are built from these
_NAME = re.compile(r"\w[\w.+-]*")
TRAINING = "training_texts.npy"  # the file in shards, runs and bundles with hashes of what they learned from


def check_name(key: str, value: object) -> str:
    """Returns `value` if it can be the name of a folder, and of nothing outside its parent."""
    if isinstance(value, str) and _NAME.fullmatch(value) and len(value.encode()) <= LONGEST:
        return value
    raise UserError(
        f"{key}={value!r}: cannot be a name. A name has letters, digits and any of . _ + - after the first letter or "
        f"digit, no blanks or slashes, and at most {LONGEST} bytes"
    )
