"""Composing in a process that is somebody else's: their Hydra is put aside, and threads take turns."""

import contextlib
import threading
from collections.abc import Iterator

_turn = threading.RLock()  # Hydra keeps what it composes in the process


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """A block that composes; the caller may be an application of Hydra itself, whose configuration comes back."""
    from hydra.core.global_hydra import GlobalHydra

    with _turn:
        before, GlobalHydra.instance().hydra = GlobalHydra.instance().hydra, None
        try:
            yield
        finally:
            GlobalHydra.instance().hydra = before  # another instance: Hydra has put a copy in its place
