"""Watches the endpoint: asks its /metrics and /status every few seconds, and keeps the last hour in memory.

Several endpoints may answer at one address: each is known by the moment at which its process began, and what it has
counted is compared with what the same one had counted before.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from dragoman.model.errors import reason

EVERY = 15.0  # seconds between two looks
HOUR = 3600.0  # seconds that are kept
PATIENCE = 2.0  # seconds for an answer
FAMILIES = ("dragoman_", "http_server_request_duration_seconds")
STARTED = "process_start_time_seconds"
COUNTED = ("_total", "_count", "_sum", "_bucket")
Key = tuple[str, tuple[tuple[str, str], ...]]  # of a sample: name and labels


@dataclass(frozen=True)
class Step:
    """The work of one endpoint between two looks at it."""

    at: float  # seconds since 1970
    seconds: float
    began: float  # of its process
    counts: Mapping[Key, float]  # only what has grown

    def total(self, name: str, **labels: str) -> float:
        return sum(by_label([self], name, "", **labels).values())


@dataclass(frozen=True)
class View:
    """The endpoint as it was seen last, and the steps of the last hour."""

    address: str  # empty: none is known
    trouble: str  # why it did not answer the last look; empty: it did
    asked: float | None  # the last look
    answered: float | None  # the last answer
    status: Mapping[str, Any]  # of /status
    values: Mapping[Key, float]  # of the last answer: totals since its start, and gauges
    steps: list[Step]

    @property
    def instances(self) -> int:
        return len({step.began for step in self.steps})


@dataclass
class EndpointWatch:
    """The watch over the endpoint at `address`; empty: there is none. `now` is the service's clock."""

    address: str
    now: Callable[[], float] = time.time
    _view: View = field(init=False)

    def __post_init__(self) -> None:
        self._view = View(self.address, "", None, None, {}, {}, [])
        self._steps: deque[Step] = deque()
        self._last: dict[float, tuple[float, Mapping[Key, float]]] = {}  # began -> last look at it, counts
        self._lock, self._ending = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="endpoint-watch", daemon=True)

    def start(self) -> None:
        if self.address:
            self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(4 * PATIENCE)

    def view(self) -> View:
        """Returns what is known; looks first where nobody has for a while."""
        with self._lock:
            if self.address and (self._view.asked is None or self.now() - self._view.asked > 2 * EVERY):
                self._look()
            return self._view

    def _run(self) -> None:
        while not self._ending.wait(EVERY):
            with self._lock:
                self._look()

    def _look(self) -> None:
        now, before = self.now(), self._view
        try:
            text = httpx.get(f"{self.address}/metrics", timeout=PATIENCE).raise_for_status().text
            values = {key: value for key, value in _samples(text) if key[0].startswith((*FAMILIES, STARTED))}
            status = httpx.get(f"{self.address}/status", timeout=PATIENCE).json()  # 503: it has no model
        except (httpx.HTTPError, ValueError) as problem:
            steps = self._recent(now)
            self._view = View(self.address, reason(problem), now, before.answered, before.status, {}, steps)
            return
        began = values.get((STARTED, ()), 0.0)
        last, counts = self._last.get(began, (began, {}) if before.asked and began > before.asked else (now, values))
        grown = {key: value - counts.get(key, 0.0) for key, value in values.items() if key[0].endswith(COUNTED)}
        if now > last:
            self._steps.append(Step(now, now - last, began, {key: value for key, value in grown.items() if value > 0}))
        self._last = {key: one for key, one in self._last.items() if now - one[0] < HOUR} | {began: (now, values)}
        known = status if isinstance(status, dict) else {}
        self._view = View(self.address, "", now, now, known, values, self._recent(now))

    def _recent(self, now: float) -> list[Step]:
        while self._steps and self._steps[0].at < now - HOUR:
            self._steps.popleft()
        return list(self._steps)


def by_label(steps: Iterable[Step], name: str, *labels: str, **wanted: str) -> dict[Any, float]:
    """Returns the sum of what a metric grew, by the values of these labels (of one label, by its value)."""
    found: dict[Any, float] = {}
    for step in steps:
        for (sample, pairs), value in step.counts.items():
            own = dict(pairs)
            if sample == name and wanted.items() <= own.items():
                values = tuple(own.get(label, "") for label in labels)
                key = values[0] if len(values) == 1 else values
                found[key] = found.get(key, 0.0) + value
    return found


def quantile(share: float, buckets: Mapping[str, float]) -> float | None:
    """Returns the quantile of a histogram, `le` -> cumulative count, as Prometheus estimates it; None: it is empty."""
    bounds = sorted((float(bound), count) for bound, count in buckets.items())
    if not bounds or not bounds[-1][1]:
        return None
    rank, low, below = share * bounds[-1][1], 0.0, 0.0
    for bound, count in bounds:
        if count >= rank:
            part = (rank - below) / (count - below) if count > below else 1.0
            return low if bound == float("inf") else low + (bound - low) * part
        low, below = bound, count
    return low


def _samples(text: str) -> Iterable[tuple[Key, float]]:
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            yield (one.name, tuple(sorted(one.labels.items()))), one.value
