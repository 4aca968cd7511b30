"""Downloads from a local server: whole, checked, or not at all."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from model.errors import UserError
from pipelines.corpus.fetch import fetch
from pipelines.corpus.settings import FetchFile

CONTENT = b"one line\n" * 300_000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[: len(CONTENT) // 2] if self.path == "/broken" else CONTENT)

    def log_message(self, format: str, *args: object) -> None:
        """Silence: the test says what matters."""


@pytest.fixture
def server() -> Iterator[str]:
    _Handler.asked = []
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def test_a_file_is_downloaded_once(server: str, tmp_path: Path) -> None:
    entry = FetchFile(f"{server}/train", DIGEST.upper(), "deep/train.en")
    for _ in range(2):
        fetch([entry], str(tmp_path))
    assert (tmp_path / "deep" / "train.en").read_bytes() == CONTENT
    assert _Handler.asked == ["/train"]


def test_another_content_under_the_name_is_replaced(server: str, tmp_path: Path) -> None:
    (tmp_path / "train.en").write_text("half of it", encoding="utf-8")
    fetch([FetchFile(f"{server}/train", DIGEST, "train.en")], str(tmp_path))
    assert (tmp_path / "train.en").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("path", "digest", "message"),
    [
        ("/missing", DIGEST, r"corpus.fetch\[0\].url: .*404"),
        ("/broken", DIGEST, r"corpus.fetch\[0\].url: .*broke off after 1,350,000 of 2,700,000"),
        ("/train", "0" * 64, r"corpus.fetch\[0\].sha256: .*gives another file"),
    ],
)
def test_a_failed_download_leaves_nothing(server: str, tmp_path: Path, path: str, digest: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        fetch([FetchFile(server + path, digest, "train.en")], str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_nobody_there_is_the_users_to_know(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be fetched"):
        fetch([FetchFile("http://127.0.0.1:9/x", DIGEST, "x")], str(tmp_path))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (FetchFile("ftp://host/x", DIGEST, "x"), r"corpus.fetch\[0\].url: scheme"),
        (FetchFile("http://host/x", "abc", "x"), r"corpus.fetch\[0\].sha256: 'abc' is no sha256"),
        (FetchFile("http://host/x", DIGEST, "../x"), r"corpus.fetch\[0\].file: '../x' must be a name inside"),
        (FetchFile("http://host/x", DIGEST, "/x"), r"corpus.fetch\[0\].file"),
    ],
)
def test_what_is_not_allowed_is_refused_before_anything_is_asked(
    tmp_path: Path, entry: FetchFile, message: str
) -> None:
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
