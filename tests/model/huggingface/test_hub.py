"""`hf://` against a local server that answers the hub's routes."""

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dragoman.model.errors import UserError
from dragoman.model.huggingface.hub import fetch

pytest.importorskip("huggingface_hub")
COMMIT = "a" * 40
FILES = {"config.json": b"{}", "model.safetensors": b"weights", "training.py": b"print()", "vocab.json": b"{}"}


class Hub(BaseHTTPRequestHandler):
    """One model, org/model, and one without safetensors, org/pickled."""

    asked: list[str] = []  # noqa: RUF012  # of one test

    def do_HEAD(self) -> None:
        self.answer(False)

    def do_GET(self) -> None:
        self.answer(True)

    def answer(self, body: bool) -> None:
        self.asked.append(self.path)
        path = self.path.partition("?")[0]
        name = next((one for one in ("org/model", "org/pickled") if one in path), None)
        files = FILES if name == "org/model" else {"config.json": b"{}", "pytorch_model.bin": b"\x80"}
        parts = path.split("/")
        if name is None:
            return self.send(404, b"", body, {"X-Error-Code": "RepoNotFound"})
        if "missing" in parts:
            return self.send(404, b"", body, {"X-Error-Code": "RevisionNotFound"})
        if path.startswith("/api/models/") and "tree" in parts:
            rows = [
                {"type": "file", "path": one, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for one, data in files.items()
            ]
            return self.send(200, json.dumps(rows).encode(), body)
        if path.startswith("/api/models/"):
            siblings = [{"rfilename": one} for one in files]
            return self.send(200, json.dumps({"id": name, "sha": COMMIT, "siblings": siblings}).encode(), body)
        data = files[parts[-1]]
        etag = {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": COMMIT}
        return self.send(200, data, body, etag)

    def send(self, status: int, data: bytes, body: bool, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    Hub.asked = []
    yield Hub.asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_configurations_and_safetensors_are_fetched_and_nothing_else(hub: list[str], tmp_path: Path) -> None:
    found = fetch("hf://org/model@main", tmp_path)
    assert found.revision == COMMIT
    assert sorted(one.name for one in found.folder.iterdir()) == ["config.json", "model.safetensors", "vocab.json"]
    assert (found.folder / "model.safetensors").read_bytes() == b"weights"
    assert not any("training.py" in path and "resolve" in path for path in hub)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("hf://org/pickled", r"pytorch_model.bin is a pickle.*convert it"),
        ("hf://org/other", r"no such model"),
        ("hf://org/model@missing", r"no revision 'missing'"),
        ("hf://model", r"must be hf://ORG/NAME"),
    ],
)
def test_what_the_hub_has_not_is_named(address: str, message: str, hub: list[str], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        fetch(address, tmp_path)
    assert not list(tmp_path.rglob("*.bin"))
