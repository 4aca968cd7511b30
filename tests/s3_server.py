"""A local S3 (moto, in a process of its own) behind a proxy that delays, resets, refuses, cuts short and lies.

For the benchmark `storage` and for tests: what real buckets do on bad days, on one machine and on command. moto checks
a condition and then writes, in threads: it shows what a conditional put means, not that one of two racing ones wins.
"""

import contextlib
import http.client
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from dragoman.model.ports import free_ports

Kind = Literal["delay", "reset", "status", "cut", "long", "short", "damage", "lost", "away"]
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "who", "AWS_SECRET_ACCESS_KEY": "s3cr3t-of-the-bucket", "AWS_REGION": "us-east-1"}
STARTING = 60.0  # seconds that moto may take


@dataclass
class Fault:
    """What happens to the next `times` requests that begin with `method` and whose path holds `path`.

    delay: `seconds` before each answer. reset: the connection breaks before the request arrives; cut: in the middle of
    the answer's body; lost: after the request was carried out. status: it is answered so, with the code `code`.
    long, short: Content-Length is another one. damage: a byte of the body is. away: nothing is answered, ever.
    """

    kind: Kind
    method: str = ""
    path: str = ""
    times: float = 1
    seconds: float = 0.0
    status: int = 503
    code: str = "SlowDown"
    after: int = 0  # of such requests that go well before


@dataclass
class Proxy:
    """Stands at `port`, before the server at `behind`; `faults` may change while it runs."""

    behind: int
    port: int = 0
    host: str = "127.0.0.1"
    faults: list[Fault] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)  # "GET /bucket/key"
    bytes_out: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to find the bucket: an address and credentials."""
        return {**CREDENTIALS, "AWS_ENDPOINT_URL": self.url, "AWS_EC2_METADATA_DISABLED": "true"}

    def fault(self, kind: Kind, method: str = "", path: str = "", **more: Any) -> Fault:
        """Add one."""
        self.faults.append(Fault(kind, method, path, **more))
        return self.faults[-1]

    def take(self, method: str, path: str) -> list[Fault]:
        """What this request meets."""
        with self.lock:
            self.requests.append(f"{method} {path.partition('?')[0]}")
            met = []
            for one in self.faults:
                if method.startswith(one.method) and one.path in path and one.times > 0:
                    if one.after > 0:
                        one.after -= 1
                        continue
                    one.times -= 1
                    met.append(one)
            return met


@contextlib.contextmanager
def s3_server(*buckets: str) -> Iterator[Proxy]:
    """moto with these buckets, behind a proxy without faults."""
    (port,) = free_ports(1)
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    moto = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ})
    try:
        ends = time.monotonic() + STARTING
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
                break
            if moto.poll() is not None or time.monotonic() > ends:
                raise RuntimeError("moto's server did not start")
            time.sleep(0.1)
        for bucket in buckets:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=STARTING)
            connection.request("PUT", f"/{bucket}", headers={"Content-Length": "0"})
            connection.getresponse().read()
            connection.close()
        with proxy_before(port) as proxy:
            yield proxy
    finally:
        moto.terminate()
        moto.wait()


@contextlib.contextmanager
def proxy_before(port: int, host: str = "127.0.0.1") -> Iterator[Proxy]:
    """A proxy at `host` before what answers at `port` of this machine."""
    proxy = Proxy(port, host=host)
    server = _Server((host, 0), _handler(proxy))
    proxy.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is no news."""


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: Any) -> None:
            """Silent."""

        def _reset(self) -> None:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True

        def _answer(self) -> None:
            met = {one.kind: one for one in proxy.take(self.command, self.path)}
            if "delay" in met:
                time.sleep(met["delay"].seconds)
            if "away" in met or "reset" in met:
                self._reset()
                return
            length = self.headers.get("Content-Length")
            chunked = "chunked" in self.headers.get("Transfer-Encoding", "")
            if self.headers.get("Expect", "").lower() == "100-continue":
                self.wfile.flush()
            body = self._chunks() if chunked else self.rfile.read(int(length or 0))
            if "status" in met:
                one = met["status"]
                text = f"<Error><Code>{one.code}</Code><Message>as told</Message></Error>".encode()
                self._send(one.status, [("Content-Type", "application/xml")], text, str(len(text)))
                return
            connection = http.client.HTTPConnection("127.0.0.1", proxy.behind, timeout=60)
            headers = {k: v for k, v in self.headers.items() if k.lower() not in ("expect", "connection")}
            if chunked:
                body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for key, value in headers.items():
                connection.putheader(key, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            content = answer.read()
            skipped = ("connection", "transfer-encoding", "content-length", "server", "date")
            kept = [(k, v) for k, v in answer.getheaders() if k.lower() not in skipped]
            size = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
            connection.close()
            if "lost" in met:
                self._reset()
                return
            if "damage" in met and content:
                content = content[:-1] + bytes([content[-1] ^ 1])
            if "long" in met:
                size = str(len(content) + 1000)
            if "short" in met:
                content = content[: len(content) // 2]
                size = str(len(content))
            if "cut" in met:
                content = content[: len(content) // 2]
            self._send(answer.status, kept, content, size)
            if "cut" in met or "long" in met:
                self._reset()

        def _chunks(self) -> bytes:
            """The body of a request in chunks, as one (aws-chunked framing within stays)."""
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def _send(self, status: int, headers: list[tuple[str, str]], content: bytes, size: str | None) -> None:
            self.send_response_only(status)
            for key, value in headers:
                self.send_header(key, value)
            if size is not None and status != 204:
                self.send_header("Content-Length", size)
            self.end_headers()
            if self.command != "HEAD":
                with proxy.lock:  # before they go: whoever has them all finds them counted
                    proxy.bytes_out += len(content)
                self.wfile.write(content)
                self.wfile.flush()

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _answer  # noqa: N815  # as http.server names them

    return Handler
