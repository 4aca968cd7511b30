"""A clock that nothing can set, and tasks that are called again and again on a thread of their own."""

import logging
import threading
import time
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError


class SteadyClock:
    """Seconds since 1970; it does not jump with the machine's clock, so a jump ends no job."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        return self._offset + time.monotonic()


logger = logging.getLogger(__name__)


class Repeating:
    """Calls `task` every `seconds`, the first time after `first`. A failure does not end it: the next call tries again.

    `ending` is set when it is to stop; a long task looks at it.
    """

    def __init__(self, name: str, seconds: float, task: Callable[[], object], first: float | None = None) -> None:
        self.name, self.seconds, self.task = name, seconds, task
        self.first = seconds if first is None else first
        self.ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, patience: float = 10.0) -> None:
        """Ends the thread after the call at which it is; waits at most `patience` seconds for that."""
        self.ending.set()
        if self._thread.ident is not None:
            self._thread.join(patience)

    def _run(self) -> None:
        pause = self.first
        while not self.ending.wait(pause):
            pause = self.seconds
            try:
                self.task()
            except (SQLAlchemyError, OSError) as problem:  # the ledger does not answer, or a disk is full
                logger.warning("%s: %s", self.name, str(problem).splitlines()[0][:300])
            except Exception:
                logger.exception("%s: a call failed", self.name)
