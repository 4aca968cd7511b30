"""`corpus.fetch`: downloads files by URL and sha256 into `corpus.root`, each completely or not at all.

A read timeout is no limit: a server that sends one byte per minute would hold a reader forever. So `minutes` ends a
download wherever it waits: for a handshake, a head or a body."""

import asyncio
import hashlib
import logging
import ssl
from collections.abc import AsyncIterator, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from dragoman.model.addresses import mask_address, mask_secrets
from dragoman.model.errors import UserError, unknown
from dragoman.model.files import atomic_open, file_sha256
from dragoman.model.storage.places import local_path
from dragoman.pipelines.corpus.settings import FetchFile

SCHEMES = ("http", "https", "file")
UPGRADE = ("http", "https")  # the only change of scheme that a redirect may make
REDIRECTS = 10  # at most
TIMEOUT = 60.0  # seconds without a byte
_READ = 1 << 20  # bytes
logger = logging.getLogger(__name__)


def fetch(files: Sequence[FetchFile], root: str | None) -> None:
    """Downloads files that are missing or have another content."""
    if files and not root:
        raise UserError("corpus.root: needed for corpus.fetch; give the folder to download into")
    for number, entry in enumerate(files):
        _fetch_one(entry, Path(str(root)).expanduser(), f"corpus.fetch[{number}]")


def _fetch_one(entry: FetchFile, root: Path, key: str) -> None:
    try:
        scheme, masked = urlsplit(entry.url).scheme, mask_address(entry.url)
    except ValueError as problem:
        raise UserError(f"{key}.url: is no address ({problem})") from None
    if scheme not in SCHEMES:
        raise unknown(f"{key}.url: scheme", scheme, SCHEMES)
    if len(entry.sha256) != 64 or set(entry.sha256.lower()) - set("0123456789abcdef"):
        raise UserError(f"{key}.sha256: {entry.sha256!r} is no sha256 (64 hexadecimal digits)")
    if not 0 < entry.minutes < 1e6:
        raise UserError(f"{key}.minutes={entry.minutes}: how long it may take; expected more than 0, below a million")
    path = _target(entry.file, root, key)
    if path.is_file() and file_sha256(path) == entry.sha256.lower():
        return
    logger.info(f"fetching {masked}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _run(_download(entry, path, key))
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as problem:
        late = isinstance(problem, TimeoutError)
        reason = f"not there within {key}.minutes={entry.minutes:g}" if late else str(problem)
        raise UserError(f"{key}.url: {masked}: cannot be fetched ({mask_secrets(reason, entry.url)})") from None


def _target(file: str, root: Path, key: str) -> Path:
    """Returns the file's path, which stays inside `root` after all links are followed."""
    name = Path(file)
    if name.is_absolute() or ".." in name.parts or not name.name or "\0" in file:
        raise UserError(f"{key}.file: {file!r} must be a name inside of corpus.root")
    path = root / name
    if not path.resolve().is_relative_to(root.resolve()):
        raise UserError(f"{key}.file: {file!r} leads out of corpus.root by a link, to {path.resolve()}")
    if path.is_dir():
        raise UserError(f"{key}.file: {path}: is a folder, not a file")
    return path


async def _download(entry: FetchFile, path: Path, key: str) -> None:
    digest, expected = hashlib.sha256(), entry.sha256.lower()
    with atomic_open(path) as file:
        async with asyncio.timeout(60 * entry.minutes):
            async for block in _blocks(entry.url):
                digest.update(block)
                file.write(block)
        if (actual := digest.hexdigest()) != expected:
            raise UserError(
                f"{key}.sha256: {mask_address(entry.url)} gives another file: expected {expected}, got {actual}"
            )


async def _blocks(url: str) -> AsyncIterator[bytes]:
    """Yields the bytes at `url`; a password goes to its own host only."""
    if urlsplit(url).scheme == "file":
        with local_path(url).open("rb") as file:
            while block := file.read(_READ):
                yield block
        return
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs addresses with their secrets
    plain = {"Accept-Encoding": "identity"}
    async with httpx.AsyncClient(verify=ssl.create_default_context(), timeout=TIMEOUT, headers=plain) as client:
        request = client.build_request("GET", url)
        for _ in range(REDIRECTS):
            answer = await client.send(request, stream=True)
            if answer.next_request is None:
                break
            await answer.aclose()
            schemes = request.url.scheme, answer.next_request.url.scheme
            if len(set(schemes)) > 1 and schemes != UPGRADE:
                raise ValueError(f"redirected from {schemes[0]} to {schemes[1]}, which is not allowed")
            request = answer.next_request
        if not answer.is_success:
            raise ValueError(f"the server answers {answer.status_code} {answer.reason_phrase}")
        async for block in answer.aiter_raw(_READ):
            yield block


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Runs `work` to its end, also where an event loop runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()
