"""Composes inside a process of another program: puts its Hydra aside, and lets threads take turns."""

import contextlib
import threading
from collections.abc import Iterator

_turn = threading.RLock()  # Hydra's state is per process


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Composes within the block; the caller may be a Hydra application, whose configuration is restored."""
    from hydra.core.global_hydra import GlobalHydra

    with _turn:
        before, GlobalHydra.instance().hydra = GlobalHydra.instance().hydra, None
        try:
            yield
        finally:
            GlobalHydra.instance().hydra = before  # another instance: Hydra has put a copy there
