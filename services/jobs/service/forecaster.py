"""Forecasts for lists: why each waiting job waits and when it starts, from one look at the queue.

A forecast simulates the scheduler, which takes long with many jobs. So it covers the first jobs of the queue, is made
only now and then, within a time limit, and a page waits for it only for a moment.
"""

import logging
import threading
import time
from dataclasses import dataclass, field

from dragoman.services.jobs.scheduling.why import Forecast, forecasts
from dragoman.services.jobs.service.loop import Loop

FRESH = 2.0  # seconds that a forecast stays valid, and
SHARE = 20  # at least this many times its own duration: forecasting must not slow the service down
PATIENCE = 0.05  # seconds that a page waits for a new one
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class View:
    """The queue at one moment."""

    at: float = 0.0
    version: int = -1  # of the audit trail
    took: float = 0.0  # seconds to make it
    forecasts: dict[str, Forecast] = field(default_factory=dict)  # by id, in the order of the queue


class Forecaster:
    """Forecasts, made again in a separate thread when a page asks and something has changed."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._view = View()
        self._lock = threading.Lock()
        self._working: threading.Event | None = None

    def view(self, patience: float = PATIENCE, job: str = "") -> View:
        """Returns the newest view; waits at most `patience` seconds for a new one, or for one that has `job`."""
        version = self.loop.ledger.newest
        with self._lock:
            good = max(FRESH, SHARE * self._view.took) * (1 if self._view.version != version else 5)
            lacks = job and job not in self._view.forecasts
            if self._view.version >= 0 and time.monotonic() - self._view.at < good and not lacks:
                return self._view
            if self._working is None:
                self._working = threading.Event()
                threading.Thread(target=self._make, args=(version, self._working), daemon=True).start()
            working = self._working
        working.wait(patience)
        return self._view

    def _make(self, version: int, done: threading.Event) -> None:
        began = time.monotonic()
        try:
            forecasts = self._forecasts()
        except Exception:  # a page without forecasts is better than none
            logger.exception("the forecast failed")
            forecasts = {}
        view = View(time.monotonic(), version, time.monotonic() - began, forecasts)
        with self._lock:
            self._view, self._working = view, None
        done.set()

    def _forecasts(self) -> dict[str, Forecast]:
        capacity = self.loop.capacity
        if capacity is None or not capacity.nodes or self.loop.trouble:
            return {}
        jobs, quotas, rules = self.loop.scheduler.snapshot()
        return forecasts(jobs, quotas, capacity, self.loop.ledger.now(), rules)
