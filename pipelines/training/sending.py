"""Sends and gets the files of a run whose folder stands for an address, by its snapshots (`snapshots.py`)."""

import logging
import threading
from dataclasses import replace
from pathlib import Path

from dragoman.model.errors import ServiceError, UserError
from dragoman.model.files import exclusive
from dragoman.model.runs import attempts, paths
from dragoman.model.storage import retry
from dragoman.model.storage.mirror import Remote
from dragoman.model.storage.transfers import publish_files
from dragoman.pipelines.training import snapshots

AGAIN = 10.0  # seconds until a failed send is retried
PATIENCE = 20.0  # seconds of one try
logger = logging.getLogger(__name__)


class SendingThread:
    """Sends the contents of a run's folder after each checkpoint."""

    def __init__(self, run: Path, elsewhere: Remote, attempt: int) -> None:
        self.sender = snapshots.Sender(run, replace(elsewhere, deadline=min(PATIENCE, retry.DEADLINE)))
        self.attempt = attempt
        self._new, self._ended = threading.Event(), threading.Event()
        self._said = False
        self._stale: attempts.StaleAttemptError | None = None
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Sends what is new. Raises StaleAttemptError: another start has taken over."""
        if self._stale is not None:
            raise self._stale
        self._new.set()

    def close(self, orderly: bool = True) -> None:
        """Sends the rest, until the usual deadline."""
        self._ended.set()
        self._new.set()
        self._thread.join()
        if not orderly:
            return
        if self._stale is not None:
            raise self._stale
        elsewhere = self.sender.elsewhere
        try:
            last = snapshots.Sender(self.sender.run, replace(elsewhere, deadline=None))
            last.send(self.attempt)
        except (ServiceError, UserError) as away:
            raise ServiceError(
                f"the last checkpoint could not be sent ({away}). It is kept in {self.sender.run}; the same command, "
                f"given on this machine, sends it and goes on"
            ) from None

    def _run(self) -> None:
        waiting = False
        while not self._ended.is_set():
            self._new.wait(AGAIN if waiting else None)
            self._new.clear()
            waiting = self._stale is None and not self._send()

    def _send(self) -> bool:
        """Returns True if everything there is sent, or never will be."""
        try:
            self.sender.send(self.attempt)
        except attempts.StaleAttemptError as stale:
            logger.error(str(stale))
            self._stale = stale
            return True
        except FileNotFoundError:  # an old checkpoint was removed while it was being sent
            self._new.set()
            return True
        except (ServiceError, UserError, OSError) as problem:
            if not self._said:
                logger.warning(f"checkpoints wait in {self.sender.run} until they can be sent ({problem})")
            self._said = True
            return False
        if self._said:
            self._said = False
            logger.info(f"{self.sender.elsewhere.address}: what had to wait is sent")
        return True


def pull_own(run: Path, elsewhere: Remote) -> bool:
    """Gets the newest files if they belong to the attempt that this folder knows, and not to one that has taken over;
    returns True if they do."""
    snapshot = snapshots.newest(elsewhere)
    if snapshot is None or snapshot.attempt != attempts.current_attempt(run):
        return False
    snapshots.pull(run, elsewhere)
    return True


def publish(run: Path, elsewhere: Remote, *results: str) -> None:
    """Sends the contents of a run's folder, and the files and folders `results` under their own names too.

    Raises StaleAttemptError: another start has taken over, so nothing of ours may be registered. Raises RefusedError,
    AwayError.
    """
    with exclusive(run / paths.SNAPSHOT_LOCK, wait=True):
        snapshots.Sender(run, elsewhere).send(attempts.current_attempt(run))
    for name in results:
        publish_files(run / name)
