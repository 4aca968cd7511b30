"""The thread that sends a spool during training."""

import logging
import threading
import time

from dragoman.model.addresses import mask_address, mask_secrets
from dragoman.model.errors import reason
from dragoman.pipelines.tracking.sender import Sender

logger = logging.getLogger(__name__)

LONGEST_PAUSE = 60.0  # seconds between two tries while the server is away


class BackgroundSender(threading.Thread):
    """Sends every `flush_seconds`, and less often while the server is away. Daemon: it keeps no process alive."""

    def __init__(self, sender: Sender) -> None:
        super().__init__(name="tracking", daemon=True)
        self.sender = sender
        self.away: str | None = None  # why the last try failed
        self._wake = threading.Event()
        self._passed = threading.Condition()
        self._passes = 0
        self._asked = 0
        self._ending = False

    def run(self) -> None:
        """Runs one pass after another until `end`."""
        pause = self.sender.config.flush_seconds
        while True:
            self._wake.wait(pause)
            if self._ending:
                return
            self._wake.clear()
            with self._passed:
                asked = self._asked
            sent = self._try()
            pause = self.sender.config.flush_seconds if self.away is None else min(LONGEST_PAUSE, 2 * pause + 0.1)
            with self._passed:
                self._passes = max(self._passes, asked) if sent or self.away else self._passes
                self._passed.notify_all()
            if not sent and self.away is None:
                time.sleep(0.05)  # another process is sending this spool: check again soon
                self._wake.set()

    def flush(self, timeout: float) -> bool:
        """Sends now; returns True if everything spooled has arrived. Stops after `timeout` seconds or a failure."""
        if not self.is_alive():
            return self.sender.spool.pending() == 0
        with self._passed:
            self._asked += 1
            wanted = self._asked
            self._wake.set()
            self._passed.wait_for(lambda: self._passes >= wanted, timeout)
        return self.sender.spool.pending() == 0

    def end(self) -> None:
        """Stops the thread after its present request; the run's next start sends the rest.

        Starts nothing, because loading MLflow alone takes seconds. Does not wait for a server that hangs."""
        self._ending = True
        self._wake.set()

    def _try(self) -> bool:
        spool, config = self.sender.spool, self.sender.config
        try:
            spool.sync()
            sent = self.sender.send()
        except Exception as problem:  # whatever is wrong with tracking, the training continues
            said = mask_secrets(f"{type(problem).__name__}: {reason(problem)}", config.uri)
            if self.away is None:
                logger.warning(
                    "MLflow at %s does not take records for now; training goes on, they are kept in %s (%s)",
                    mask_address(config.uri),
                    spool.folder,
                    said,
                )
            self.away = said
            return False
        if self.away is not None:
            logger.info("MLflow at %s takes records again", mask_address(config.uri))
        self.away = None
        return sent
