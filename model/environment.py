"""Environment variables that a library sets and that must not reach child processes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def restore_environment(*names: str) -> Iterator[None]:
    """Restores the variables `names` on leaving: to their old value, or unset."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
