"""Forecasts for lists: why each waiting job waits and when it starts, from one look at the queue.

A forecast simulates the scheduler, which takes long with many jobs. So it covers the first jobs of the queue, is made
only now and then, within a time limit, and a page waits for it only for a moment.
"""

import logging
import threading
import time
from dataclasses import dataclass, field

from dragoman.services.jobs.scheduling.decide import decide, order
from dragoman.services.jobs.scheduling.entries import UNKNOWN, Capacity, Entry, Quota
from dragoman.services.jobs.scheduling.rules import Rules
from dragoman.services.jobs.scheduling.simulate import Seconds, Simulation
from dragoman.services.jobs.scheduling.why import sentence
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.states import State

FIRST = 200  # jobs of the queue whose start is forecast
BUDGET = 0.3  # seconds for a forecast
FRESH = 2.0  # seconds that a forecast stays valid, and
SHARE = 20  # at least this many times its own duration: forecasting must not slow the service down
PATIENCE = 0.05  # seconds that a page waits for a new one
NEVER = ("never", "after")
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Forecast:
    """The forecast of one waiting job. Times are seconds since 1970; None: unknown."""

    text: str
    ahead: int
    earliest: float | None = None
    latest: float | None = None


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

    def view(self, patience: float = PATIENCE) -> View:
        """Returns the newest view; waits at most `patience` seconds for a new one."""
        version = self.loop.ledger.newest
        with self._lock:
            good = max(FRESH, SHARE * self._view.took) * (1 if self._view.version != version else 5)
            if self._view.version >= 0 and time.monotonic() - self._view.at < good:
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
        entries = list(jobs.jobs.values())
        now = self.loop.ledger.now()
        outcome = decide(entries, quotas, capacity, now, rules)
        queue = sorted(order(entries, capacity, now, rules), key=lambda job: job.id != outcome.first)
        active = list(jobs.active.values())
        first = queue[:FIRST]
        low = _starts([*active, *first], quotas, capacity, now, rules, lambda entry: entry.low)
        high = _starts([*active, *first], quotas, capacity, now, rules, lambda entry: entry.high)
        certain = all(entry.high < UNKNOWN for entry in active)
        by_job = {}
        for ahead, job in enumerate(queue):
            was_certain, certain = (
                certain,
                certain and job.high < UNKNOWN,
            )  # True if the ends of all jobs before it are known
            wait = outcome.waits.get(job.id)
            if wait is None:
                by_job[job.id] = Forecast("it starts in the next pass of the scheduler", ahead, now, now)
                continue
            is_known = wait.kind not in NEVER
            latest = high.get(job.id) if is_known and was_certain else None
            place, earliest = (ahead, low.get(job.id)) if is_known else (0, None)
            by_job[job.id] = Forecast(sentence(job, wait, ahead), place, earliest, latest)
        return by_job


def _starts(
    jobs: list[Entry], quotas: dict[str, Quota], capacity: Capacity, now: float, rules: Rules, seconds: Seconds
) -> dict[str, float]:
    """Returns each job's first start if every job runs for `seconds`, as far as the time limit allows."""
    simulation, until = Simulation(jobs, quotas, capacity, now, seconds, rules), time.monotonic() + BUDGET
    waiting = {job.id for job in jobs if job.state == State.WAITING}
    while time.monotonic() < until:
        simulation.step()
        if waiting <= simulation.first.keys():
            break
        at = simulation.next_event()
        if at is None:
            break
        simulation.advance(at)
    return simulation.first
