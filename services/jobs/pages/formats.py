"""Formats numbers and times for the pages."""

import time
from typing import Any

from dragoman.model.durations import duration
from dragoman.services.jobs.client.table import clock
from dragoman.services.jobs.states import PRIORITY_NAMES

UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def span(seconds: float | None) -> str:
    """Returns a length of time in its one or two largest units."""
    return "–" if seconds is None else duration(seconds)


def when(at: float | None) -> str:
    """Returns day and hour in the service's local time."""
    return "–" if at is None else clock(at)


def iso(at: float | None) -> str:
    """Returns a time as the attribute of a <time>, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)) if at is not None else ""


def number(value: float) -> str:
    """Returns a measured value in four digits."""
    return f"{value:,.0f}" if abs(value) >= 9_999.5 else f"{value:.4g}"


def short(value: float) -> str:
    """Returns a count with a unit: 12.3M."""
    for size, letter in UNITS:
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def size(count: float) -> str:
    """Returns a size in bytes with a unit."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}"
        count /= 1024
    return f"{count:,.1f} GiB"


def priority(value: int) -> str:
    """Returns the word for a priority, or the number if it has none."""
    return PRIORITY_NAMES.get(value, str(value))


def plain(value: Any) -> str:
    """Returns a setting's value as written after the equals sign."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{','.join(map(plain, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)
