"""Local folders that stand for addresses: CACHE/dragoman-mirror/s3/BUCKET/KEY... stands for s3://BUCKET/KEY...

So code that works with folders works with addresses too, and asks `remote_of` when it must fetch or publish
(`transfers.py`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.model.storage.places import MIRRORS, join

if TYPE_CHECKING:
    from dragoman.model.storage.cache import Cache


@dataclass(frozen=True)
class Remote:
    """The address that a local folder stands for."""

    address: str
    cache_folder: Path
    deadline: float | None = None  # seconds that a request may keep failing; None: the usual ones

    @property
    def cache(self) -> "Cache":
        from dragoman.model.storage.cache import Cache  # with the libraries of addresses: plain folders load none

        return Cache(self.cache_folder)

    def at(self, name: str) -> str:
        """Returns the address of `name` below it."""
        return join(self.address, name)

    def fetch(self, name: str, size: int, sha256: str) -> Path:
        """Returns the path of `name` in this machine's cache, fetched if needed. Raises as `Cache.fetch`."""
        return self.cache.fetch(self.at(name), size, sha256, self.deadline)


def remote_of(path: Path) -> Remote | None:
    """Returns the address that a local folder or file stands for; None if it is an ordinary one."""
    parts = path.absolute().parts
    if MIRRORS not in parts[:-2]:
        return None
    # a cache may lie within a folder that stands for an address
    depth = max(at for at, part in enumerate(parts[:-2]) if part == MIRRORS)
    scheme, rest = parts[depth + 1], parts[depth + 2 :]
    return Remote(f"{scheme}://{'/'.join(rest)}", Path(*parts[:depth]))
