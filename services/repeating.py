"""A clock that nothing can set, and tasks that are called again and again on a thread of their own."""

import logging
import threading
import time
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from dragoman.model.errors import ServiceError, UserError, reason


class SteadyClock:
    """Seconds since 1970; it does not jump with the machine's clock, so a jump ends no job."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        return self._offset + time.monotonic()


OUTSIDE = (ServiceError, UserError, SQLAlchemyError, OSError)  # the world around has failed, not the program
FAILED = 1.0  # seconds of pause after a failure
IDLE = 5  # times as long is the pause after a call that found nothing to do
logger = logging.getLogger(__name__)


class Repeating:
    """Calls `task` every `seconds`, the first time after `first`. A failure does not end it: the next call tries again.

    `ending` is set when it is to stop; a long task checks it. `wake` calls it at once, but a call that took long is
    followed by a pause of `leisure` times its duration. One that returns False had nothing to do: the next comes later.
    """

    def __init__(
        self, name: str, seconds: float, task: Callable[[], object], first: float | None = None, leisure: float = 0.0
    ) -> None:
        self.name, self.seconds, self.task, self.leisure = name, seconds, task, leisure
        self.first = seconds if first is None else first
        self.trouble = ""  # why the last call failed
        self.ending, self._wake = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Calls the task now, because something has changed."""
        self._wake.set()

    def stop(self, timeout: float = 10.0) -> None:
        """Ends the thread after the call at which it is; waits at most `timeout` seconds for that."""
        self.ending.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def call(self) -> object:
        """Calls the task and returns its outcome; a failure is logged once, for a full disk may last for days."""
        try:
            outcome = self.task()
        except Exception as problem:
            trouble = reason(problem)
            if trouble != self.trouble:
                logger.warning("%s: %s", self.name, trouble, exc_info=None if isinstance(problem, OUTSIDE) else problem)
            self.trouble = trouble
            self.ending.wait(FAILED)
            return None
        self.trouble = ""
        return outcome

    def _run(self) -> None:
        self._wake.wait(self.first)
        while not self.ending.is_set():
            self._wake.clear()
            began = time.monotonic()
            outcome = self.call()
            # what changes in one moment shares a call
            self.ending.wait(min(self.seconds, self.leisure * (time.monotonic() - began)))
            self._wake.wait(self.seconds * (IDLE if outcome is False else 1))
