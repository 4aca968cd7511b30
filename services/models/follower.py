"""Keeps the served model equal to what a registry reference names, without a pause in answering.

A new version is downloaded, loaded and tried while the old one goes on answering, then takes its place by reference.
One that fails is named in `error`, and the last good model stays. An unsound bundle is not tried again until the
reference moves; what may pass (a server away, a disk full) is, after ever longer pauses.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from model.errors import UserError
from services.models.registry import ModelVersion

Model = TypeVar("Model")
LONGEST_PAUSE = 300.0  # seconds between two tries of a version that failed
logger = logging.getLogger(__name__)


class Versions(Protocol):
    """What is asked of a registry: which version a reference names now."""

    def resolve(self, reference: str) -> ModelVersion: ...


class Follower(Generic[Model]):
    """The current model, and the thread that asks every `seconds` whether there is a newer one.

    `load(version)` returns the model ready to answer, or raises.
    """

    def __init__(
        self, versions: Versions, reference: str, load: Callable[[ModelVersion], Model], seconds: float = 10.0
    ) -> None:
        self.current: Model | None = None
        self.swapped: Callable[[bool], None] = lambda _: None  # told of every version: it answers now, or it failed
        self.error: str | None = None  # why the newest version is not the one that answers, or cannot be known
        self._versions = versions
        self._reference = reference
        self._load = load
        self._seconds = seconds
        self._version: ModelVersion | None = None  # loaded now
        self._failed: ModelVersion | None = None
        self._pause = 0.0  # seconds
        self._again = 0.0  # when `_failed` may be tried again, monotonic clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    def load_now(self) -> None:
        """Load what the reference names, here and now, and let every error through."""
        version = self._versions.resolve(self._reference)
        self._take(version)

    def look(self) -> None:
        """Ask once; load what is new. Errors are kept in `error`, never raised."""
        try:
            version = self._versions.resolve(self._reference)
            if version == self._version:
                self.error = None
            elif version != self._failed or time.monotonic() >= self._again:
                self._try(version)
        except Exception as problem:  # whatever a registry or a bundle may raise, the model that answers must stay
            message = f"{type(problem).__name__}: {problem}"
            if message != self.error:
                logger.warning("%s: %s", self._reference, message)
            self.error = message

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """End the thread; a load in progress is left to end with the process."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _try(self, version: ModelVersion) -> None:
        """`_take`, and note when a version that fails may be tried again."""
        try:
            self._take(version)
        except Exception as problem:
            again = version == self._failed
            self._pause = min(LONGEST_PAUSE, 2 * self._pause if again else self._seconds)
            self._again = float("inf") if isinstance(problem, UserError) else time.monotonic() + self._pause
            self._failed = version
            self.swapped(False)
            raise

    def _take(self, version: ModelVersion) -> None:
        model = self._load(version)
        self.current, self._version, self._failed, self.error = model, version, None, None
        self.swapped(True)
        logger.info("%s answers now (run %s)", version, version.run_id or "unknown")

    def _run(self) -> None:
        while not self._stop.is_set():
            self.look()
            self._stop.wait(self._seconds)
