"""Opens a URL: redirects keep its scheme, its password goes to its host only, and a deadline ends the download.

A read timeout is no limit: a server that sends one byte per minute, in the head or the body, would hold a reader
forever. So a timer shuts the connections at the deadline, wherever they wait.
"""

import base64
import contextlib
import functools
import http.client
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import Message
from typing import IO, Any
from urllib.parse import unquote, urlsplit

TIMEOUT = 60.0  # seconds without a byte
UPGRADE = ("http", "https")  # the only change of scheme that a redirect may make


class Deadline:
    """Shuts the connections that it watches when the time is over."""

    def __init__(self, seconds: float) -> None:
        self.passed = False
        self.end = time.monotonic() + seconds
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> "Deadline":
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()
        for one in self._sockets:
            one.close()

    def connect(self, address: tuple[str, int], timeout: float, source: tuple[str, int] | None = None) -> socket.socket:
        """Opens a connection that is watched from the start, because a handshake can take forever too."""
        connected = socket.create_connection(address, min(timeout, max(0.001, self.end - time.monotonic())), source)
        connected.settimeout(timeout)
        self._sockets.append(connected.dup())  # TLS wraps the socket and detaches this one
        if self.passed:
            self._end()
        return connected

    def _end(self) -> None:
        self.passed = True
        for one in self._sockets:
            with contextlib.suppress(OSError):  # the server has closed it
                one.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def open_url(url: str, deadline: Deadline) -> Iterator[Any]:
    """Yields the answer to a GET of `url`: `read(bytes)` and `headers`."""
    parts = urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(parts._replace(netloc=host).geturl())
    if login:
        secret = base64.b64encode(unquote(login).encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {secret}")
    opener = urllib.request.build_opener(_Connections(deadline), Redirects())
    try:
        answer = opener.open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as problem:
        problem.close()  # an error is an answer too, with its own connection
        raise
    with answer:
        yield answer


class Redirects(urllib.request.HTTPRedirectHandler):
    """Redirects that keep the scheme or change http to https, and send a password only to its own host."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if after.scheme != before.scheme and (before.scheme, after.scheme) != UPGRADE:
            raise urllib.error.URLError(f"redirected from {before.scheme} to {after.scheme}, which is not allowed")
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        secret = req.unredirected_hdrs.get("Authorization")
        if request is not None and secret and after.hostname == before.hostname:
            request.add_unredirected_header("Authorization", secret)
        return request

    def http_error_302(self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any) -> Any:
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except BaseException:
            fp.close()  # the redirecting answer, which nothing else closes
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class _Connections(urllib.request.HTTPSHandler, urllib.request.HTTPHandler):
    """Makes every connection of an opener watched."""

    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self.deadline = deadline

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(functools.partial(_Watched, deadline=self.deadline), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        context = ssl.create_default_context()
        return self.do_open(functools.partial(_Secure, deadline=self.deadline, context=context), req)


class _Watched(http.client.HTTPConnection):
    def __init__(self, *args: Any, deadline: Deadline, **rest: Any) -> None:
        super().__init__(*args, **rest)
        self._create_connection = deadline.connect  # the library's own hook for another way to connect


class _Secure(_Watched, http.client.HTTPSConnection):
    pass


def content_length(headers: Message) -> int | None:
    """Returns the number of bytes in the body, from the server; None if it gives none."""
    value = headers.get("Content-Length")
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal()):
        raise ValueError(f"the server's Content-Length is {value!r}, which is no number of bytes")
    return int(value)
