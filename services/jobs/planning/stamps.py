"""Stamps of the files that a plan was made from."""

from pathlib import Path

Stamp = list[int] | None  # a file's time and size; None if it does not exist


def stamp_of(path: str) -> Stamp:
    """Returns the file's present stamp, as plain values for JSON."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return [found.st_mtime_ns, found.st_size]
