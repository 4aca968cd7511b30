"""Files as they were when a plan was made of them."""

from pathlib import Path

Stamp = list[int] | None  # a file's time and size; none where there is none


def stamp_of(path: str) -> Stamp:
    """As it is now; plain values, for they go through JSON."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return [found.st_mtime_ns, found.st_size]
