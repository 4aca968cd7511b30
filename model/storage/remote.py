"""Remote objects: reads, writes or creates one object at an address; each request is retried.

Manifests name the objects, because a listing may be late or partial: only `names`, for backups, lists. Requests go
through fsspec; on S3 `create` is a conditional put (`If-None-Match: *`), which only one of many callers wins.

S3's multipart upload retries each part of a large object by itself, then joins all, which takes a server some seconds
per gigabyte. If its answer is lost or late, the next request finds no upload; the object then shows whether it is ours.
"""

import contextlib
import hashlib
import logging
import os
import threading
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from dragoman.model.addresses import mask_address
from dragoman.model.errors import UserError
from dragoman.model.files import file_sha256
from dragoman.model.storage.hosts import checked_socket
from dragoman.model.storage.places import is_address, is_loopback, is_writable
from dragoman.model.storage.retry import BrokenTransferError, ExistsError, NotThereError, Patience, retry

PART = 32 << 20  # bytes; S3 requires at least 5 MiB for all parts but the last
MOST_PARTS = 10_000  # S3's limit


def upload_multipart(files: Any, path: Path, address: str, patience: Patience) -> None:
    """Uploads the file to an address of S3, through the file system `files` (s3fs)."""
    bucket, key, _ = files.split_path(address)
    where = {"Bucket": bucket, "Key": key}
    begun = retry(lambda: files.call_s3("create_multipart_upload", **where), address, patience)
    where["UploadId"] = begun["UploadId"]
    size = path.stat().st_size
    part = max(PART, -(-size // MOST_PARTS))
    try:
        with path.open("rb") as file:
            tags = [
                _send(files, file, part, address, patience, {**where, "PartNumber": number})
                for number in range(1, -(-size // part) + 1)
            ]
        retry(lambda: _join(files, address, where, tags), address, patience)
    except BaseException:
        with contextlib.suppress(Exception):  # the first error matters more
            files.call_s3("abort_multipart_upload", **where)
        raise


def _send(files: Any, file: BinaryIO, size: int, address: str, patience: Patience, where: dict[str, Any]) -> str:
    """Uploads the next part of `file` and returns its tag; botocore makes the server check its bytes."""
    body = file.read(size)
    return str(retry(lambda: files.call_s3("upload_part", Body=body, **where)["ETag"], address, patience))


def _join(files: Any, address: str, where: dict[str, Any], tags: list[str]) -> None:
    parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
    try:
        files.call_s3("complete_multipart_upload", MultipartUpload={"Parts": parts}, **where)
    except FileNotFoundError as gone:  # no such upload: an earlier request joined it, or is joining it now
        etag = ""
        with contextlib.suppress(FileNotFoundError):
            etag = str(files.info(address)["ETag"]).strip('"')
        if not etag or etag != _joined_tag(tags):
            raise BrokenTransferError("the upload is gone, and the object there is not what was sent") from gone


def _joined_tag(tags: list[str]) -> str:
    """Returns the tag that S3 gives an object of parts with these tags; empty if they are no hashes (encryption)."""
    try:
        digests = b"".join(bytes.fromhex(tag.strip('"')) for tag in tags)
    except ValueError:
        return ""
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(tags)}"


BLOCK = 8 << 20  # bytes per request
CONNECT, READ = 10.0, 20.0  # seconds without a connection, without a byte
PATIENCE = Patience()
LIBRARIES = {"gs": "gcsfs"}  # libraries of less common schemes; their users install them


def read(address: str, patience: Patience = PATIENCE) -> bytes:
    """Returns all of a small object. Raises NotThereError, RefusedError, AwayError."""
    return bytes(retry(lambda: _files(address).cat_file(address), address, patience))


def read_range(address: str, start: int, count: int, patience: Patience = PATIENCE) -> bytes:
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

    return retry(ask, address, patience)


def size(address: str, patience: Patience = PATIENCE) -> int | None:
    """Returns the size of an object in bytes; None if the server does not say.

    Raises NotThereError, RefusedError, AwayError.
    """

    def ask() -> int | None:
        facts = _files(address).info(address)
        if facts.get("type") != "file":
            raise NotThereError(f"{mask_address(address)}: nothing is stored there")
        return None if facts.get("size") is None else int(facts["size"])

    return retry(ask, address, patience)


def version(address: str, patience: Patience = PATIENCE) -> str:
    """Returns the server's version of an object: its tag or time, and size; empty if it says nothing.

    Raises NotThereError, RefusedError, AwayError.
    """
    facts = retry(lambda: _files(address).info(address), address, patience)
    tag = facts.get("ETag") or facts.get("etag") or facts.get("LastModified") or facts.get("created") or ""
    return f"{tag} {facts.get('size')}" if tag else ""


def names(address: str, patience: Patience = PATIENCE) -> list[str]:
    """Returns the names of the objects below an address, relative to it, in order. Raises RefusedError, AwayError."""

    def ask() -> list[str]:
        start = address.rstrip("/").partition("://")[2] + "/"
        return sorted(path.lstrip("/").removeprefix(start) for path in _files(address).find(address.rstrip("/") + "/"))

    try:
        return retry(ask, address, patience)
    except NotThereError:
        return []


def write(address: str, content: bytes, patience: Patience = PATIENCE, stop: threading.Event | None = None) -> None:
    """Writes `content` to an object. Raises RefusedError, AwayError."""
    check_writable(address)
    retry(lambda: _files(address).pipe_file(address, content), address, patience, stop)


def create(address: str, content: bytes, patience: Patience = PATIENCE) -> None:
    """Creates an object with `content`, if there is none; one with the same content is fine too.

    Raises ExistsError: another object exists there. Raises RefusedError, AwayError.
    """
    check_writable(address)
    try:
        retry(lambda: _files(address).pipe_file(address, content, mode="create"), address, patience)
    except ExistsError:  # perhaps by our own request whose answer was lost
        if read(address, patience) != content:
            raise


def upload(path: Path, address: str, patience: Patience = PATIENCE) -> None:
    """Uploads the file to an object and checks its size afterwards. On S3 a large file goes in parts.

    Raises RefusedError, AwayError.
    """
    check_writable(address)

    def send() -> None:
        files, expected = _files(address), path.stat().st_size
        if address.startswith("s3://") and expected > PART:
            upload_multipart(files, path, address, patience)
        else:
            files.put_file(str(path), address)
        size_there = files.info(address)["size"]
        if size_there != expected:
            raise BrokenTransferError(f"{size_there:,} of {expected:,} bytes have arrived")

    retry(send, address, patience)


def delete(address: str, patience: Patience = PATIENCE) -> None:
    """Deletes an object, if it exists."""
    check_writable(address)
    try:
        retry(lambda: _files(address).rm_file(address), address, patience)
    except NotThereError:
        return


def download(address: str, part: Path, expected: int, sha256: str, patience: Patience = PATIENCE) -> None:
    """Downloads the object of this size and hash to the file `part`; resumes a partial one.

    Raises NotThereError, RefusedError, AwayError. Raises UserError: the object differs, twice.
    """
    for fresh in (False, True):  # the part may be another object's, or damaged: then once more from the start
        with part.open("wb" if fresh else "ab") as file:
            file.truncate(min(file.tell(), expected))
            for block in _blocks(address, file.seek(0, os.SEEK_END), expected, patience):
                file.write(block)
        if file_sha256(part) == sha256:
            return
    part.unlink()
    raise UserError(f"{mask_address(address)}: is not the file that its manifest names (its sha256 differs)")


def download_unchecked(address: str, part: Path, patience: Patience = PATIENCE) -> None:
    """Downloads an object that no manifest names to the file `part`; the server gives its size.

    Raises NotThereError, RefusedError, AwayError.
    """
    expected = size(address, patience)
    with part.open("wb") as file:
        if expected is None:
            file.write(read(address, patience))
            return
        for block in _blocks(address, 0, expected, patience):
            file.write(block)


def check_writable(address: str) -> None:
    """Raises UserError if an address is read-only."""
    if not is_writable(address):
        raise UserError(f"{mask_address(address)}: can be read only; results go to a folder, s3:// or gs://")


def _blocks(address: str, start: int, end: int, patience: Patience) -> Iterator[bytes]:
    while start < end:
        block = read_range(address, start, min(BLOCK, end - start), patience)
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
