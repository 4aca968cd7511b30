"""`corpus.fetch`: files by URL and sha256, downloaded into `corpus.root` whole or not at all."""

import hashlib
import http.client
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from model.errors import UserError, unknown
from pipelines.corpus.scratch import whole
from pipelines.corpus.settings import FetchFile
from pipelines.corpus.staging import sha256_of

SCHEMES = ("http", "https", "file")
TIMEOUT = 60.0  # seconds without a byte
_READ = 1 << 20  # bytes
logger = logging.getLogger(__name__)


def fetch(files: Sequence[FetchFile], root: str | None) -> None:
    """Download what is not there yet (or is there with another content).

    Raises:
        UserError: no `corpus.root`, a scheme or name that is not allowed, a server that does not give the file, or a
            content that is not the one of the sha256; names the key.
    """
    if files and not root:
        raise UserError("corpus.root: needed for corpus.fetch; give the folder to download into")
    for number, entry in enumerate(files):
        _fetch_one(entry, Path(str(root)).expanduser(), f"corpus.fetch[{number}]")


def _fetch_one(entry: FetchFile, root: Path, key: str) -> None:
    scheme = urlsplit(entry.url).scheme
    if scheme not in SCHEMES:
        raise unknown(f"{key}.url: scheme", scheme, SCHEMES)
    if len(entry.sha256) != 64 or set(entry.sha256.lower()) - set("0123456789abcdef"):
        raise UserError(f"{key}.sha256: {entry.sha256!r} is no sha256 (64 hexadecimal digits)")
    path = root / entry.file
    if Path(entry.file).is_absolute() or ".." in Path(entry.file).parts or not entry.file:
        raise UserError(f"{key}.file: {entry.file!r} must be a name inside of corpus.root")
    if path.is_file() and sha256_of(path) == entry.sha256.lower():
        return
    logger.info(f"fetching {entry.url}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _download(entry, path, key)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as problem:
        raise UserError(f"{key}.url: {entry.url}: cannot be fetched ({problem})") from problem


def _download(entry: FetchFile, path: Path, key: str) -> None:
    digest, expected_digest = hashlib.sha256(), entry.sha256.lower()
    # the schemes were checked: http, https and file only
    with urllib.request.urlopen(entry.url, timeout=TIMEOUT) as answer, whole(path) as file:
        expected = answer.headers.get("Content-Length")
        size = 0
        while block := answer.read(_READ):
            digest.update(block)
            file.write(block)
            size += len(block)
        if expected is not None and size != int(expected):
            raise UserError(f"{key}.url: {entry.url}: broke off after {size:,} of {int(expected):,} bytes; try again")
        if digest.hexdigest() != expected_digest:
            found = digest.hexdigest()
            raise UserError(f"{key}.sha256: {entry.url} gives another file: expected {expected_digest}, got {found}")
        file.flush()
        os.fsync(file.fileno())
