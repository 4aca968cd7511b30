"""The cache of a machine: what it holds, what goes, and what many processes do to it."""

import errno
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.model.storage import cache as module
from dragoman.model.storage import remote
from dragoman.model.storage.cache import Cache
from dragoman.model.storage.retry import Patience
from tests.s3_server import Proxy

PATIENCE = Patience(20)
SIZE = 1000
GET = (
    "import sys\nfrom pathlib import Path\nfrom dragoman.model.storage.cache import Cache\n"
    "from dragoman.model.storage.retry import Patience\nfolder, limit, address, size, sha = sys.argv[1:]\n"
    "print(Cache(Path(folder), int(limit)).fetch(address, int(size), sha, Patience(20)))\n"
)


class Objects:
    """Objects in the bucket, and a cache for three of them."""

    def __init__(self, folder: Path, limit: int = 3 * SIZE) -> None:
        self.cache = Cache(folder, limit)
        self.known: dict[str, tuple[str, int, str]] = {}

    def make(self, name: str, size: int = SIZE) -> None:
        content = (name.encode() * size)[:size]
        address = f"s3://bucket/cache/{name}-{size}"
        remote.write(address, content)
        self.known[name] = (address, size, hashlib.sha256(content).hexdigest())

    def get(self, name: str) -> bytes:
        return self.cache.fetch(*self.known[name], PATIENCE).read_bytes()

    def held(self) -> set[str]:
        names = {path.name for path in (self.cache.folder / "objects").glob("*/*")}
        return {name for name, (_, _, sha) in self.known.items() if sha in names}


@pytest.fixture
def objects(s3: Proxy, tmp_path: Path) -> Objects:
    found = Objects(tmp_path / "cache")
    for name in "abcd":
        found.make(name)
    s3.requests.clear()
    return found


def test_a_hit_asks_for_nothing(objects: Objects, s3: Proxy) -> None:
    assert objects.get("a") == b"a" * SIZE
    s3.requests.clear()
    assert objects.get("a") == b"a" * SIZE
    assert not s3.requests


def test_the_one_that_was_asked_for_longest_ago_goes_first(objects: Objects) -> None:
    for name in "abc":
        objects.get(name)
        time.sleep(0.01)
    objects.get("a")
    objects.get("d")
    assert objects.held() == {"a", "c", "d"}


def test_what_is_open_stays_for_its_holder(objects: Objects) -> None:
    view = objects.cache.open_mapped(*objects.known["a"], PATIENCE)
    for name in "bcd":
        objects.get(name)
    assert "a" not in objects.held() and view[:] == b"a" * SIZE


def test_a_limit_below_one_file_is_refused(s3: Proxy, tmp_path: Path) -> None:
    small = Objects(tmp_path / "cache", SIZE - 1)
    small.make("a")
    with pytest.raises(UserError, match="cache_gb"):
        small.get("a")


def test_a_file_that_was_changed_in_the_cache_is_fetched_again(objects: Objects, s3: Proxy) -> None:
    path = objects.cache.fetch(*objects.known["a"], PATIENCE)
    path.write_bytes(b"b" + path.read_bytes()[1:])
    s3.requests.clear()
    assert objects.get("a") == b"a" * SIZE
    assert len(s3.requests) == 1


def test_a_full_disk_makes_room_and_only_then_gives_up(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    objects.get("a")
    objects.get("b")
    left = [2]
    download = module.download

    def full(*arguments: object) -> None:
        if left[0]:
            left[0] -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        download(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "download", full)
    assert objects.get("c") == b"c" * SIZE
    assert objects.held() == {"c"}
    left[0] = 9
    with pytest.raises(OSError, match="No space") as problem:
        objects.get("d")
    assert problem.value.filename


def test_processes_share_a_cache_and_fetch_once(objects: Objects, s3: Proxy) -> None:
    s3.fault("delay", seconds=0.3, times=1e9)
    arguments = [str(objects.cache.folder), str(objects.cache.limit), *map(str, objects.known["a"])]
    command = [sys.executable, "-c", GET, *arguments]
    ranks = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert {rank.communicate(timeout=60)[0] for rank in ranks} == {
        f"{objects.cache.fetch(*objects.known['a'], PATIENCE)}\n"
    }
    assert len(s3.requests) == 1


def test_who_is_killed_while_fetching_leaves_what_came(
    s3: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = Objects(tmp_path / "cache", 100 << 20)
    big.make("a", 3 * remote.BLOCK)
    s3.fault("delay", "GET", seconds=60, after=1, times=1)
    arguments = [str(big.cache.folder), str(big.cache.limit), *map(str, big.known["a"])]
    s3.requests.clear()
    rank = subprocess.Popen([sys.executable, "-c", GET, *arguments])
    while len(s3.requests) < 2:
        time.sleep(0.05)
    rank.send_signal(signal.SIGKILL)
    rank.wait()
    sent = s3.bytes_out
    assert len(big.get("a")) == 3 * remote.BLOCK
    assert s3.bytes_out - sent == 2 * remote.BLOCK


def test_two_that_are_fetched_at_once_are_not_more_than_the_cache_holds(
    s3: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each made room before the other had come."""
    objects = Objects(tmp_path / "cache", SIZE + SIZE // 2)
    for name in "ab":
        objects.make(name)
    fetch = module.download

    def meanwhile(*arguments: Any) -> None:
        monkeypatch.setattr(module, "download", fetch)
        objects.get("b")
        fetch(*arguments)

    monkeypatch.setattr(module, "download", meanwhile)
    assert objects.get("a") == b"a" * SIZE
    assert objects.held() == {"a"}
