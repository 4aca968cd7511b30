"""Transfers against a local S3 that misbehaves on command, and against plain HTTP."""

import functools
import hashlib
import http.server
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.model.storage import remote
from dragoman.model.storage.hosts import PUBLIC_ONLY
from dragoman.model.storage.retry import AwayError, ExistsError, NotThereError, RefusedError
from tests.s3_server import Kind, Proxy

PLACE = "s3://bucket/transfers"
CONTENT = bytes(range(256)) * 40
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FAULTS: list[Kind] = ["delay", "reset", "cut", "long", "short", "status", "lost"]
BRIEF = 0.5


@pytest.fixture
def file(s3: Proxy) -> str:
    remote.write(f"{PLACE}/file", CONTENT)
    return f"{PLACE}/file"


@pytest.mark.parametrize("kind", FAULTS)
def test_what_may_pass_is_tried_again(s3: Proxy, file: str, tmp_path: Path, kind: Kind) -> None:
    s3.fault(kind, "GET", seconds=0.05, times=2)
    remote.download(file, tmp_path / "part", len(CONTENT), SHA256)
    assert (tmp_path / "part").read_bytes() == CONTENT
    assert s3.faults[0].times < 2


@pytest.mark.parametrize("kind", ["delay", "reset", "status", "lost"])
def test_puts_are_tried_again(s3: Proxy, tmp_path: Path, kind: Kind) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    s3.fault(kind, "PUT", seconds=0.05, times=2)
    remote.upload(tmp_path / "file", f"{PLACE}/put-{kind}")
    assert remote.read(f"{PLACE}/put-{kind}") == CONTENT


@pytest.mark.parametrize("kind", ["reset", "status", "cut"])
def test_a_request_fails_at_its_deadline(s3: Proxy, file: str, kind: Kind) -> None:
    s3.fault(kind, times=1e9)
    with pytest.raises(AwayError, match="no valid answer"):
        remote.read_range(file, 0, len(CONTENT), BRIEF)
    assert len(s3.requests) > 2


def test_a_create_whose_answer_was_lost_was_ours(s3: Proxy) -> None:
    s3.fault("lost", "PUT")
    remote.create(f"{PLACE}/created", b"first")
    with pytest.raises(ExistsError):
        remote.create(f"{PLACE}/created", b"second")
    assert remote.read(f"{PLACE}/created") == b"first"


@pytest.mark.parametrize(
    ("status", "code"), [(403, "InvalidAccessKeyId"), (400, "ExpiredToken"), (403, "AccessDenied")]
)
def test_refused_credentials_end_it_at_once(s3: Proxy, file: str, status: int, code: str) -> None:
    s3.requests.clear()
    s3.fault("status", status=status, code=code, times=1e9)
    with pytest.raises(RefusedError, match=code) as refused:
        remote.read(file)
    assert len(s3.requests) == 1
    assert not any(secret in str(refused.value) for secret in s3.environment.values() if len(secret) > 4)


def test_a_bucket_that_is_not_there_is_named(s3: Proxy) -> None:
    with pytest.raises(NotThereError, match="no such bucket"):
        remote.read("s3://gone/file")
    with pytest.raises(NotThereError, match=f"{PLACE}/nothing"):
        remote.size(f"{PLACE}/nothing")


def test_a_part_that_came_before_is_gone_on_with(s3: Proxy, file: str, tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.write_bytes(CONTENT[:10_000])
    sent = s3.bytes_out
    remote.download(file, part, len(CONTENT), SHA256)
    assert part.read_bytes() == CONTENT and s3.bytes_out - sent == len(CONTENT) - 10_000


@pytest.mark.parametrize("before", [b"other" * 10, b"x" * (len(CONTENT) + 5)])
def test_a_part_of_something_else_or_damaged_on_its_way_is_fetched_anew(
    s3: Proxy, file: str, tmp_path: Path, before: bytes
) -> None:
    (tmp_path / "part").write_bytes(before)
    remote.download(file, tmp_path / "part", len(CONTENT), SHA256)
    assert (tmp_path / "part").read_bytes() == CONTENT
    (tmp_path / "part").unlink()
    s3.fault("damage", "GET")
    remote.download(file, tmp_path / "part", len(CONTENT), SHA256)
    assert (tmp_path / "part").read_bytes() == CONTENT


def test_what_is_damaged_in_the_bucket_is_refused_and_nothing_left(s3: Proxy, tmp_path: Path) -> None:
    remote.write(f"{PLACE}/damaged", b"y" + CONTENT[1:])
    with pytest.raises(UserError, match="sha256 differs"):
        remote.download(f"{PLACE}/damaged", tmp_path / "part", len(CONTENT), SHA256)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """A folder over HTTP, by a server that knows no ranges; /moved leads to the metadata service."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", "http://169.254.169.254/secret")
                self.end_headers()
                return
            super().do_GET()

        def log_message(self, *_: Any) -> None:
            """Silent."""

    (tmp_path / "file").write_bytes(CONTENT)
    handler = functools.partial(Handler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_file_comes_over_http(web: str, tmp_path: Path) -> None:
    remote.download_unchecked(f"{web}/file?token=hidden", tmp_path / "part")
    assert (tmp_path / "part").read_bytes() == CONTENT
    with pytest.raises(NotThereError) as missing:
        remote.read(f"{web}/nothing?token=hidden")
    assert "hidden" not in str(missing.value)


def test_a_redirect_to_the_metadata_service_is_not_followed(web: str) -> None:
    with pytest.raises(UserError, match="metadata"):
        remote.read(f"{web}/moved", BRIEF)


def test_a_remote_user_reaches_no_private_host(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remote._file_system.cache_clear()
    monkeypatch.setenv(PUBLIC_ONLY, "1")
    with pytest.raises(UserError, match="private"):
        remote.read(f"{web}/file", BRIEF)


def test_a_forked_child_has_connections_of_its_own(s3: Proxy, file: str) -> None:
    child = os.fork()
    if not child:
        os._exit(0 if remote.read(file) == CONTENT else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_scheme_whose_library_is_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)  # as where it is not installed
    remote._file_system.cache_clear()
    with pytest.raises(UserError, match=r"^gs://: gcsfs is not installed here; pip install gcsfs$"):
        remote.read("gs://bucket/object")
