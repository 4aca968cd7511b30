"""Downloads from a local server: whole, checked, or not at all."""

import asyncio
import base64
import contextlib
import gc
import hashlib
import logging
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from dragoman.model.errors import UserError
from dragoman.pipelines.corpus.read.fetch import fetch
from dragoman.pipelines.corpus.settings import FetchFile

CONTENT = b"one line\n" * 300_000
DIGEST = hashlib.sha256(CONTENT).hexdigest()
LOGIN = "Basic " + base64.b64encode(b"me:pa:ss/word").decode()
STOPPED = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path.startswith("/missing"):
            self.send_error(404)
            return
        if self.path.startswith("/to?"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to?"))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path == "/slow-head":
            self.drip(b"HTTP/1.1 200 OK\r\n" + b"X-Odd: x\r\n" * 1000)
            return
        if self.path == "/locked" and self.headers["Authorization"] != LOGIN:
            self.send_error(401)
            return
        self.send_response(200)
        if self.path == "/odd-length":
            self.send_header("Content-Length", "many")
        if self.path == "/slow-body":
            self.end_headers()
            self.drip(CONTENT)
            return
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[: len(CONTENT) // 2] if self.path == "/broken" else CONTENT)

    def drip(self, data: bytes) -> None:
        """A byte now and then, for ever as far as the test is concerned."""
        with contextlib.suppress(OSError):
            for byte in data:
                self.wfile.write(bytes([byte]))
                if STOPPED.wait(0.02):
                    break

    def log_message(self, format: str, *args: object) -> None:
        """Silence: the test says what matters."""


@pytest.fixture
def server() -> Iterator[str]:
    _Handler.asked = []
    STOPPED.clear()
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    STOPPED.set()
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def test_a_file_is_downloaded_once_and_another_content_replaced(server: str, tmp_path: Path) -> None:
    entry = FetchFile(f"{server}/train", DIGEST.upper(), "deep/train.en")
    for _ in range(2):
        fetch([entry], str(tmp_path))
    assert (tmp_path / "deep" / "train.en").read_bytes() == CONTENT
    assert _Handler.asked == ["/train"]
    (tmp_path / "deep" / "train.en").write_text("half of it", encoding="utf-8")
    fetch([entry], str(tmp_path))
    assert (tmp_path / "deep" / "train.en").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("path", "digest", "message"),
    [
        ("/missing", DIGEST, r"corpus.fetch\[0\].url: .*404"),
        ("/broken", DIGEST, r"corpus.fetch\[0\].url: .*received 1350000 bytes, expected 2700000"),
        ("/train", "0" * 64, r"corpus.fetch\[0\].sha256: .*gives another file"),
        ("/odd-length", DIGEST, r"corpus.fetch\[0\].url: .*bad Content-Length"),
        ("/to?http://[x/", DIGEST, r"corpus.fetch\[0\].url: .*cannot be fetched"),
        ("/to?file:///etc/hostname", DIGEST, r"corpus.fetch\[0\].url: .*not allowed"),
    ],
)
def test_a_failed_download_leaves_nothing(server: str, tmp_path: Path, path: str, digest: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        fetch([FetchFile(server + path, digest, "train.en")], str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (FetchFile("http://127.0.0.1:9/x", DIGEST, "x"), r"corpus.fetch\[0\].url: .*cannot be fetched"),
        (FetchFile("ftp://host/x", DIGEST, "x"), r"corpus.fetch\[0\].url: scheme"),
        (FetchFile("http://host/x", "abc", "x"), r"corpus.fetch\[0\].sha256: 'abc' is no sha256"),
        (FetchFile("http://host/x", DIGEST, "../x"), r"corpus.fetch\[0\].file: '../x' must be a name inside"),
        (FetchFile("http://host/x", DIGEST, "/x"), r"corpus.fetch\[0\].file"),
        (FetchFile("http://host/x", DIGEST, "."), r"corpus.fetch\[0\].file"),
        (FetchFile("http://host/x", DIGEST, "a\0b"), r"corpus.fetch\[0\].file"),
        (FetchFile("http://[host/x", DIGEST, "x"), r"corpus.fetch\[0\].url: is no address"),
        (FetchFile("http://host/x", DIGEST, "x", 0), r"corpus.fetch\[0\].minutes=0: .*more than 0"),
    ],
)
def test_what_is_not_allowed_or_not_there_is_refused(tmp_path: Path, entry: FetchFile, message: str) -> None:
    with pytest.raises(UserError, match=message):
        fetch([entry], str(tmp_path))


def test_a_file_url_needs_no_server(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    origin.write_bytes(CONTENT)
    fetch([FetchFile(origin.as_uri(), DIGEST, "copy")], str(tmp_path / "root"))
    assert (tmp_path / "root" / "copy").read_bytes() == CONTENT


def test_without_a_root_nothing_is_fetched() -> None:
    with pytest.raises(UserError, match=r"corpus.root: needed for corpus.fetch"):
        fetch([FetchFile("http://host/x", DIGEST, "x")], None)


@pytest.mark.parametrize("path", ["/slow-head", "/slow-body"])
def test_a_server_that_drips_is_left_when_the_time_is_over(server: str, tmp_path: Path, path: str) -> None:
    entry = FetchFile(server + path, DIGEST, "train.en", minutes=0.3 / 60)
    with pytest.raises(UserError, match=r"corpus.fetch\[0\].url: .*not there within corpus.fetch\[0\].minutes=0.005"):
        fetch([entry], str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # httpcore leaves the socket of a cancelled handshake to the
def test_a_handshake_that_drips_is_left_when_the_time_is_over(tmp_path: Path) -> None:
    def drip() -> None:
        connected, _ = listening.accept()
        with connected, contextlib.suppress(OSError):
            connected.sendall(b"\x16\x03\x03\x40\x00")  # a record of 16 KiB follows
            while not STOPPED.wait(0.02):
                connected.sendall(b"\x02")

    STOPPED.clear()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=drip)
        server.start()
        entry = FetchFile(f"https://127.0.0.1:{listening.getsockname()[1]}/x", DIGEST, "x", minutes=0.3 / 60)
        gave_up = threading.Timer(20, STOPPED.set)
        gave_up.start()
        with pytest.raises(UserError, match="not there within"):
            fetch([entry], str(tmp_path))
        assert not STOPPED.is_set()
        STOPPED.set()
        gave_up.cancel()
        server.join()
    gc.collect()  # collector


def test_a_redirect_goes_from_http_to_https_and_never_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers are stand-ins of the transport: every host answers what it is asked with."""
    seen: list[tuple[str, str | None]] = []

    async def answer(_: object, request: httpx.Request) -> httpx.Response:
        seen.append((str(request.url.copy_with(userinfo=b"")), request.headers.get("Authorization")))
        to = {"http://host/x": "https://host/x", "https://host/x": "https://other/x", "https://down/x": "http://down/x"}
        place = to.get(seen[-1][0])
        found = httpx.Response(200, stream=httpx.ByteStream(CONTENT))
        return httpx.Response(302, headers={"Location": place}) if place else found

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", answer)
    fetch([FetchFile("http://me:pa%3Ass%2Fword@host/x", DIGEST, "x")], str(tmp_path))
    assert seen == [("http://host/x", LOGIN), ("https://host/x", LOGIN), ("https://other/x", None)]
    with pytest.raises(UserError, match="redirected from https to http, which is not allowed"):
        fetch([FetchFile("https://down/x", DIGEST, "y")], str(tmp_path))


def test_a_notebooks_event_loop_may_run_already(server: str, tmp_path: Path) -> None:
    async def cell() -> None:
        fetch([FetchFile(f"{server}/train", DIGEST, "train.en")], str(tmp_path))

    asyncio.run(cell())
    assert (tmp_path / "train.en").read_bytes() == CONTENT


def test_a_password_goes_to_its_host_and_into_no_message(
    server: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    secret = server.replace("http://", "http://me:pa%3Ass%2Fword@")
    fetch([FetchFile(f"{secret}/locked", DIGEST, "train.en")], str(tmp_path))
    with pytest.raises(UserError) as caught:
        fetch([FetchFile(f"{secret}/missing?key=hidden", DIGEST, "missing")], str(tmp_path))
    said = f"{caught.value}{caplog.text}"
    assert "http://***@127.0.0.1" in said
    assert not any(word in said for word in ("pa%3Ass", "pa:ss", "hidden"))


def test_a_link_that_leads_out_of_the_root_is_refused(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root, outside):
        folder.mkdir()
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "file")
    for name in ("folder/x", "file"):
        with pytest.raises(UserError, match=r"corpus.fetch\[0\].file: .* leads out of corpus.root by a link"):
            fetch([FetchFile("http://host/x", DIGEST, name)], str(root))
    assert list(outside.iterdir()) == []
