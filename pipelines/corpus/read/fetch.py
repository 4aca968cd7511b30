"""`corpus.fetch`: downloads files by URL and sha256 into `corpus.root`, each completely or not at all."""

import hashlib
import http.client
import logging
import ssl
import urllib.error
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from dragoman.model.addresses import mask_address, mask_secrets
from dragoman.model.errors import UserError, unknown
from dragoman.model.files import atomic_open, file_sha256
from dragoman.pipelines.corpus.read.download import Deadline, content_length, open_url
from dragoman.pipelines.corpus.settings import FetchFile

SCHEMES = ("http", "https", "file")
_READ = 1 << 20  # bytes
_OF_THE_NETWORK = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError)
logger = logging.getLogger(__name__)


def fetch(files: Sequence[FetchFile], root: str | None) -> None:
    """Downloads files that are missing or have another content.

    Raises:
        UserError: no `corpus.root`, a forbidden scheme or name, a server that does not send the file in time, or a
            content that does not match the sha256; names the key.
    """
    if files and not root:
        raise UserError("corpus.root: needed for corpus.fetch; give the folder to download into")
    for number, entry in enumerate(files):
        _fetch_one(entry, Path(str(root)).expanduser(), f"corpus.fetch[{number}]")


def _fetch_one(entry: FetchFile, root: Path, key: str) -> None:
    try:
        scheme, shown = urlsplit(entry.url).scheme, mask_address(entry.url)
    except ValueError as problem:
        raise UserError(f"{key}.url: is no address ({problem})") from None
    if scheme not in SCHEMES:
        raise unknown(f"{key}.url: scheme", scheme, SCHEMES)
    if len(entry.sha256) != 64 or set(entry.sha256.lower()) - set("0123456789abcdef"):
        raise UserError(f"{key}.sha256: {entry.sha256!r} is no sha256 (64 hexadecimal digits)")
    if not 0 < entry.minutes < 1e6:
        raise UserError(f"{key}.minutes={entry.minutes}: how long it may take; expected more than 0, below a million")
    path = _place(entry.file, root, key)
    if path.is_file() and file_sha256(path) == entry.sha256.lower():
        return
    logger.info(f"fetching {shown}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with Deadline(60 * entry.minutes) as deadline:
        try:
            _download(entry, path, deadline, key)
        except (*_OF_THE_NETWORK, ValueError) as problem:
            reason = f"not there within {key}.minutes={entry.minutes:g}" if deadline.passed else str(problem)
            raise UserError(f"{key}.url: {shown}: cannot be fetched ({mask_secrets(reason, entry.url)})") from None


def _place(file: str, root: Path, key: str) -> Path:
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


def _download(entry: FetchFile, path: Path, deadline: Deadline, key: str) -> None:
    digest, expected_digest = hashlib.sha256(), entry.sha256.lower()
    with open_url(entry.url, deadline) as answer, atomic_open(path) as file:
        expected = content_length(answer.headers)
        size = 0
        while not deadline.passed and (block := answer.read(_READ)):
            digest.update(block)
            file.write(block)
            size += len(block)
        if deadline.passed:
            raise TimeoutError
        if expected is not None and size != expected:
            raise ConnectionError(f"broke off after {size:,} of {expected:,} bytes; try again")
        if digest.hexdigest() != expected_digest:
            found = digest.hexdigest()
            raise UserError(
                f"{key}.sha256: {mask_address(entry.url)} gives another file: expected {expected_digest}, got {found}"
            )
