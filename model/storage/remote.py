"""Remote objects: reads, writes or creates one object at an address; each request is retried.

Manifests name the objects, because a listing may be late or partial. Requests go through fsspec; on S3 `create` is a
conditional put (`If-None-Match: *`), which only one of many callers wins.
"""

import logging
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from dragoman.model.addresses import mask_address
from dragoman.model.errors import UserError
from dragoman.model.files import file_sha256
from dragoman.model.storage.hosts import checked_socket
from dragoman.model.storage.places import is_address, is_loopback, is_writable
from dragoman.model.storage.retry import BrokenTransferError, ExistsError, NotThereError, retry

BLOCK = 8 << 20  # bytes per request
CONNECT, READ = 10.0, 20.0  # seconds without a connection, without a byte
LIBRARIES = {"gs": "gcsfs"}  # libraries of less common schemes; their users install them


def read(address: str, deadline: float | None = None) -> bytes:
    """Returns all of a small object. Raises NotThereError, RefusedError, AwayError."""
    return bytes(retry(lambda: _files(address).cat_file(address), address, deadline))


def read_range(address: str, start: int, count: int, deadline: float | None = None) -> bytes:
    """Returns the bytes `start` to `start + count` of an object that has them.

    Raises NotThereError, RefusedError. Raises AwayError: also if it always returned fewer or more bytes.
    """
    if not count:
        return b""

    def ask() -> bytes:
        content = bytes(_files(address).cat_file(address, start=start, end=start + count))
        if len(content) > count:  # a server without ranges sends everything
            content = content[start : start + count]
        if len(content) != count:
            raise BrokenTransferError(f"{len(content):,} of {count:,} bytes from {start:,} on")
        return content

    return retry(ask, address, deadline)


def size(address: str) -> int | None:
    """Returns the size of an object in bytes; None if the server does not say.

    Raises NotThereError, RefusedError, AwayError.
    """

    def ask() -> int | None:
        facts = _files(address).info(address)
        if facts.get("type") != "file":
            raise NotThereError(f"{mask_address(address)}: nothing is stored there")
        return None if facts.get("size") is None else int(facts["size"])

    return retry(ask, address)


def version(address: str) -> str:
    """Returns the server's version of an object: its tag or time, and size; empty if it says nothing.

    Raises NotThereError, RefusedError, AwayError.
    """
    facts = retry(lambda: _files(address).info(address), address)
    tag = facts.get("ETag") or facts.get("etag") or facts.get("LastModified") or facts.get("created") or ""
    return f"{tag} {facts.get('size')}" if tag else ""


def write(address: str, content: bytes, deadline: float | None = None) -> None:
    """Writes `content` to an object. Raises RefusedError, AwayError."""
    check_writable(address)
    retry(lambda: _files(address).pipe_file(address, content), address, deadline)


def create(address: str, content: bytes, deadline: float | None = None) -> None:
    """Creates an object with `content`, if there is none; one with the same content is fine too.

    Raises ExistsError: another object exists there. Raises RefusedError, AwayError.
    """
    check_writable(address)
    try:
        retry(lambda: _files(address).pipe_file(address, content, mode="create"), address, deadline)
    except ExistsError:  # perhaps by our own request whose answer was lost
        if read(address, deadline) != content:
            raise


def upload(path: Path, address: str, deadline: float | None = None) -> None:
    """Uploads the file to an object and checks its size afterwards.

    Raises RefusedError, AwayError.
    """
    check_writable(address)

    def send() -> None:
        files, expected = _files(address), path.stat().st_size
        files.put_file(str(path), address)
        size_there = files.info(address)["size"]
        if size_there != expected:
            raise BrokenTransferError(f"{size_there:,} of {expected:,} bytes have arrived")

    retry(send, address, deadline)


def delete(address: str, deadline: float | None = None) -> None:
    """Deletes an object, if it exists."""
    check_writable(address)
    try:
        retry(lambda: _files(address).rm_file(address), address, deadline)
    except NotThereError:
        return


def download(address: str, part: Path, expected: int, sha256: str, deadline: float | None = None) -> None:
    """Downloads the object of this size and hash to the file `part`; resumes a partial one.

    Raises NotThereError, RefusedError, AwayError.
    """
    for fresh in (False, True):  # the part may be another object's, or damaged: then once more from the start
        with part.open("wb" if fresh else "ab") as file:
            file.truncate(min(file.tell(), expected))
            for block in _blocks(address, file.seek(0, os.SEEK_END), expected, deadline):
                file.write(block)
        if file_sha256(part) == sha256:
            return
    part.unlink()
    raise UserError(f"{mask_address(address)}: is not the file that its manifest names (its sha256 differs)")


def download_unchecked(address: str, part: Path) -> None:
    """Downloads an object that no manifest names to the file `part`; the server gives its size.

    Raises NotThereError, RefusedError, AwayError.
    """
    expected = size(address)
    with part.open("wb") as file:
        if expected is None:
            file.write(read(address))
            return
        for block in _blocks(address, 0, expected, None):
            file.write(block)


def check_writable(address: str) -> None:
    """Raises UserError if an address is read-only."""
    if not is_writable(address):
        raise UserError(f"{mask_address(address)}: can be read only; results go to a folder, s3:// or gs://")


def _blocks(address: str, start: int, end: int, deadline: float | None) -> Iterator[bytes]:
    while start < end:
        block = read_range(address, start, min(BLOCK, end - start), deadline)
        yield block
        start += len(block)


def _files(address: str) -> Any:
    """Returns the file system of an allowed address."""
    if not is_address(address):
        raise UserError(f"{mask_address(address)}: a path, not an address")
    return _file_system(address.partition("://")[0], os.getpid())


@lru_cache(maxsize=8)
def _file_system(scheme: str, _process: int) -> Any:
    """Makes one per process: s3fs's connections do not survive a fork.

    Each request is one try, because `retry` counts them, and no listing is kept.
    """
    import fsspec

    for chatty in ("aiobotocore", "botocore"):  # they log the credentials' source each time
        logging.getLogger(chatty).setLevel(logging.WARNING)
    options: dict[str, Any] = {"use_listings_cache": False, "skip_instance_cache": True}
    if scheme == "s3":
        limits = {"connect_timeout": CONNECT, "read_timeout": READ, "max_pool_connections": 32}
        options |= {"config_kwargs": {**limits, "retries": {"total_max_attempts": 1}}}
        options |= {"max_concurrency": 1}  # with more, a read would request the size first
    elif scheme in ("http", "https"):
        options |= {"get_client": _http_client}
    elif scheme == "memory":
        options = {}
    try:
        files = fsspec.filesystem(scheme, **options)
    except ImportError as problem:
        needed = LIBRARIES.get(scheme, problem.name)
        raise UserError(f"{scheme}://: {needed} is not installed here; pip install {needed}") from None
    if scheme == "s3":
        files.retries = 1
    return files


async def _http_client(**options: Any) -> Any:
    """Returns a session that connects to allowed hosts only, even after redirects."""
    import aiohttp

    async def check_redirect(_session: Any, _context: Any, parameters: aiohttp.TraceRequestRedirectParams) -> None:
        target = parameters.response.headers.get("Location", "")
        if target.startswith("http://") and not is_loopback(parameters.url.host or ""):
            raise UserError(f"{mask_address(str(parameters.url))}: sends on to {mask_address(target)}, without https")

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(check_redirect)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(socket_factory=checked_socket),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT, sock_read=READ),
        trace_configs=[trace],
        **{key: value for key, value in options.items() if key == "loop"},
    )
