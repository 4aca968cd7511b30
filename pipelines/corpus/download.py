"""One URL as an open answer: its scheme kept through redirects, its password sent to its host alone, all within a time.

A timeout a read is no limit: a server that gives a byte a minute, in the head or in the body, keeps a reader for ever.
So a timer shuts the connections when the time is over, wherever they wait.
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
UPGRADE = ("http", "https")  # the one other scheme that a redirect may lead to


class Deadline:
    """Shuts the connections that it watches when its time is over."""

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
        """A connection that is watched from its beginning: a handshake can take for ever too."""
        connected = socket.create_connection(address, min(timeout, max(0.001, self.end - time.monotonic())), source)
        connected.settimeout(timeout)
        self._sockets.append(connected.dup())  # TLS makes a socket of its own of it, and leaves this one without any
        if self.passed:
            self._end()
        return connected

    def _end(self) -> None:
        self.passed = True
        for one in self._sockets:
            with contextlib.suppress(OSError):  # the other side has closed it
                one.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def open_url(url: str, deadline: Deadline) -> Iterator[Any]:
    """The answer to a GET of `url`: `read(bytes)` and `headers`.

    Raises:
        urllib.error.URLError: no such answer, or a redirect to another scheme, https in the place of http excepted.
        OSError, http.client.HTTPException, ValueError: what answers is no HTTP.
    """
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
        problem.close()  # it is an answer too, with a connection of its own
        raise
    with answer:
        yield answer


class Redirects(urllib.request.HTTPRedirectHandler):
    """Redirects that keep the scheme or change http to https, and take a password to its own host only."""

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
            fp.close()  # the answer that redirected: nobody else has it any more
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class _Connections(urllib.request.HTTPSHandler, urllib.request.HTTPHandler):
    """Every connection of an opener is watched."""

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
        self._create_connection = deadline.connect  # where the library itself lets another way of connecting in


class _Secure(_Watched, http.client.HTTPSConnection):
    pass


def content_length(headers: Message) -> int | None:
    """How many bytes the body has, as the server says; None where it does not.

    Raises:
        ValueError: it says something that is no number.
    """
    value = headers.get("Content-Length")
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal()):
        raise ValueError(f"the server's Content-Length is {value!r}, which is no number of bytes")
    return int(value)
