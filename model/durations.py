"""Formats a length of time for people."""


def duration(seconds: float) -> str:
    """Returns the one or two largest units: "40 s", "3 min 05 s", "12 min", "1 h 05 min", "4 d 2 h"."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s" if whole < 600 else f"{whole // 60} min"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"
