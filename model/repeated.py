"""Work on a thread beside a block: repeated, or done once if the block takes long."""

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def repeated(
    work: Callable[[bool], object], seconds: float, name: str, patience: float | None = None
) -> Iterator[None]:
    """Calls `work(False)` every `seconds` within the block, and `work(True)` after it.

    The thread is a daemon: it keeps no process alive. The block's end waits for it, at most `patience` seconds.
    """
    over = threading.Event()

    def run() -> None:
        last = False
        while not last:
            last = over.wait(seconds)
            work(last)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(patience)


@contextlib.contextmanager
def said_if_slow(say: Callable[[str], object], text: str, seconds: float = 5.0) -> Iterator[None]:
    """Calls `say(text)` if the block is not over after `seconds`."""
    timer = threading.Timer(seconds, say, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
