"""Keeps the served model equal to the version that a registry reference names, without a pause in answering.

A new version is downloaded, loaded and tested while the old one answers, and then replaces it. If it fails, `error`
names it and the last good model stays. An invalid bundle is not tried again until the reference moves; an error that
may pass (a server is away, a disk is full) is retried after growing pauses.
"""

import logging
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from dragoman.model.errors import ServiceError, UserError
from dragoman.model.memory import return_freed
from dragoman.services.models.registry import ModelVersion
from dragoman.services.repeating import Repeating

Model = TypeVar("Model")
KNOWN = (UserError, ServiceError)  # whose messages stand for themselves
LONGEST_PAUSE = 300.0  # seconds between two tries of a failed version
LASTS = 30.0  # seconds until a registry without an answer is logged: `up` starts it together with the endpoint
logger = logging.getLogger(__name__)


class Versions(Protocol):
    """The part of a registry that is used: the version that a reference names now."""

    def resolve(self, reference: str) -> ModelVersion: ...


class Follower(Generic[Model]):
    """The current model, and the thread that looks for a newer one every `seconds`.

    `load(version)` returns a model that is ready to answer, or raises.
    """

    def __init__(
        self, versions: Versions, reference: str, load: Callable[[ModelVersion], Model], seconds: float = 10.0
    ) -> None:
        self.current: Model | None = None
        self.swapped: Callable[[bool], None] = lambda _: None  # called for every version: True swapped in, False failed
        self.error: str | None = None  # why the newest version does not answer, or is not known
        self._versions = versions
        self._reference = reference
        self._load = load
        self._seconds = seconds
        self._version: ModelVersion | None = None  # loaded now
        self._failed: ModelVersion | None = None
        self._pause = 0.0  # seconds
        self._again = 0.0  # time for another try of `_failed`, monotonic clock
        self._unknown_since: float | None = None  # the registry has named no version since then, monotonic clock
        self._logged = ""  # the newest failure in the log
        self.repeating = Repeating("follower", seconds, self.poll, first=0.0)

    def load_now(self) -> None:
        """Loads the version that the reference names, in this thread; errors propagate."""
        version = self._versions.resolve(self._reference)
        self._take(version)

    def poll(self) -> None:
        """Checks once and loads a new version. Stores errors in `error` and never raises."""
        try:
            version = self._versions.resolve(self._reference)
        except Exception as problem:  # whatever a registry raises, the current model must stay
            now = time.monotonic()
            self._unknown_since = self._unknown_since or now
            self._fail(problem, log=now - self._unknown_since >= LASTS)
            return
        self._unknown_since = None
        try:
            if version == self._version:
                self.error, self._logged = None, ""
            elif version != self._failed or time.monotonic() >= self._again:
                self._try(version)
        except Exception as problem:  # and whatever a bundle raises
            self._fail(problem, log=True)

    def _fail(self, problem: Exception, log: bool) -> None:
        """Stores a failure in `error`, and logs it once."""
        self.error = str(problem) if isinstance(problem, KNOWN) else f"{type(problem).__name__}: {problem}"
        if log and self.error != self._logged:
            logger.warning("%s: %s", self._reference, self.error)
            self._logged = self.error

    def _try(self, version: ModelVersion) -> None:
        """Calls `_take`, and sets when a failed version may be tried again."""
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
        self.current, self._version, self._failed = self._load(version), version, None
        self.error, self._logged = None, ""
        return_freed()  # the engines' threads come and go, and each leaves a heap with the pages of its last batches
        self.swapped(True)
        logger.info("%s answers now (run %s)", version, version.run_id or "unknown")
