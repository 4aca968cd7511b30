"""Places: a local path or an address; the allowed addresses, and how to name and show them.

Addresses are parsed only here, so no user input ever reaches a shell (`pipe:`) or an unintended file system (`ftp`,
`github`, chains with `::`).
"""

import ipaddress
import posixpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dragoman.model.addresses import mask_address, mask_credentials
from dragoman.model.errors import UserError, unknown

SCHEMES = ("file", "gs", "https", "memory", "s3")
BUCKETS = ("gs", "memory", "s3")  # writable schemes
MIRRORS = "dragoman-mirror"  # the folder in a cache that holds what stands for addresses


def is_address(place: str) -> bool:
    """Returns True if `place` is an address, False if it is a local path."""
    if "://" not in place and not place.startswith("pipe:"):
        return False
    scheme = place.partition(":")[0]
    try:
        parts = urlsplit(place)
        host, user = parts.hostname or "", parts.username
    except ValueError as problem:
        raise UserError(f"{mask_credentials(place)!r} is no address ({problem})") from None
    if scheme == "http" and is_loopback(host):  # a server on this machine: nobody can intercept
        return True
    if scheme not in SCHEMES or "::" in place.partition("://")[2].partition("/")[2]:
        raise unknown(f"{mask_address(place)}: scheme", scheme, SCHEMES)
    if scheme != "https" and (user is not None or parts.query or parts.fragment):
        raise UserError(
            f"{mask_address(place)}: an address holds no password and no query here; credentials are taken from the "
            f"environment or from the usual files (AWS_ACCESS_KEY_ID, ~/.aws/credentials, ...)"
        )
    if scheme != "file" and not host:
        raise UserError(f"{mask_address(place)}: names no {'host' if scheme == 'https' else 'bucket'}")
    if ".." in unquote(parts.path).split("/"):
        raise UserError(f"{mask_address(place)}: an address must not hold '..'")
    return scheme != "file"


def is_writable(place: str) -> bool:
    """Returns True if an address is in a bucket, not behind HTTP."""
    return place.partition("://")[0] in BUCKETS


def local_path(place: str) -> Path:
    """Returns the local path of `place`, which may be a `file://` address."""
    return Path(unquote(place.removeprefix("file://")) if place.startswith("file://") else place)


def local_folder(place: str, cache: str) -> Path:
    """Returns the local folder of `place`: itself or, for an address, the folder in `cache` that stands for it."""
    if not is_address(place):
        return local_path(place)
    scheme, _, rest = place.partition("://")
    if "?" in rest or "#" in rest:
        raise UserError(f"{mask_address(place)}: an address with a query cannot stand for a folder")
    return Path(cache).expanduser().absolute().joinpath(MIRRORS, scheme, *filter(None, rest.split("/")))


def join(place: str, *names: str) -> str:
    return posixpath.join(place.rstrip("/"), *names)


def is_loopback(host: str) -> bool:
    """Returns True if a host's name or number is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
