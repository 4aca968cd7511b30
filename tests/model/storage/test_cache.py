"""The cache of a machine: what it holds, and what many processes do to it."""

import errno
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dragoman.model.storage import cache as module
from dragoman.model.storage import remote
from dragoman.model.storage.cache import Cache
from tests.s3_server import Proxy

SIZE = 1000
GET = (
    "import sys\nfrom pathlib import Path\nfrom dragoman.model.storage.cache import Cache\n"
    "folder, address, size, sha = sys.argv[1:]\nprint(Cache(Path(folder)).fetch(address, int(size), sha))\n"
)


class Objects:
    """Objects in the bucket, and a cache."""

    def __init__(self, folder: Path) -> None:
        self.cache = Cache(folder)
        self.known: dict[str, tuple[str, int, str]] = {}

    def make(self, name: str, size: int = SIZE) -> None:
        content = (name.encode() * size)[:size]
        address = f"s3://bucket/cache/{name}-{size}"
        remote.write(address, content)
        self.known[name] = (address, size, hashlib.sha256(content).hexdigest())

    def get(self, name: str) -> bytes:
        return self.cache.fetch(*self.known[name]).read_bytes()


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


def test_a_file_that_was_changed_in_the_cache_is_fetched_again(objects: Objects, s3: Proxy) -> None:
    path = objects.cache.fetch(*objects.known["a"])
    path.write_bytes(b"b" + path.read_bytes()[1:])
    s3.requests.clear()
    assert objects.get("a") == b"a" * SIZE
    assert len(s3.requests) == 1


def test_a_full_disk_names_the_file(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module, "download", full)
    with pytest.raises(OSError, match="No space") as problem:
        objects.get("d")
    assert str(objects.cache.folder) in str(problem.value.filename)


def test_processes_share_a_cache_and_fetch_once(objects: Objects, s3: Proxy) -> None:
    s3.fault("delay", seconds=0.3, times=1e9)
    arguments = [str(objects.cache.folder), *map(str, objects.known["a"])]
    command = [sys.executable, "-c", GET, *arguments]
    ranks = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert {rank.communicate(timeout=60)[0] for rank in ranks} == {f"{objects.cache.fetch(*objects.known['a'])}\n"}
    assert len(s3.requests) == 1


def test_who_is_killed_while_fetching_leaves_what_came(
    s3: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = Objects(tmp_path / "cache")
    big.make("a", 3 * remote.BLOCK)
    s3.fault("delay", "GET", seconds=60, after=1, times=1)
    arguments = [str(big.cache.folder), *map(str, big.known["a"])]
    s3.requests.clear()
    rank = subprocess.Popen([sys.executable, "-c", GET, *arguments])
    while len(s3.requests) < 2:
        time.sleep(0.05)
    rank.send_signal(signal.SIGKILL)
    rank.wait()
    sent = s3.bytes_out
    assert len(big.get("a")) == 3 * remote.BLOCK
    assert s3.bytes_out - sent == 2 * remote.BLOCK
