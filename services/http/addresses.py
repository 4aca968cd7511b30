"""Addresses: of clients, of the proxies that the settings name, and the names of this machine."""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from dragoman.model.errors import UserError
from dragoman.model.storage.places import is_loopback


def check_addresses(key: str, addresses: Sequence[str]) -> None:
    """Raises UserError, which names the setting `key`, if one is neither an address nor a network."""
    try:
        for address in addresses:
            ipaddress.ip_network(address)
    except ValueError as problem:
        raise UserError(f"{key}: {problem}; write addresses and networks, such as [10.0.0.7,192.168.1.0/24]") from None


def check_url(key: str, url: str) -> None:
    """Raises UserError, which names the setting `key`, unless it is an address of HTTP whose host and port can be."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        fault = parts.scheme not in ("http", "https") or not host or " " in host or parts.port == 0
        fault = fault or not url.isprintable() or (":" in host and _parse(host) is None)
        host.encode("idna").decode("idna")  # as a client does: no label may be empty, too long or no Punycode
    except ValueError:
        fault = True
    if fault:
        raise UserError(f"{key}={url}: write http://HOST:PORT or https://HOST, with a path where it has one")


@lru_cache(maxsize=4096)
def is_within(address: str, networks: tuple[str, ...]) -> bool:
    """Returns True if an address is one of these, or in one of these networks."""
    parsed = _parse(address)
    return parsed is not None and any(parsed in ipaddress.ip_network(network) for network in networks)


@lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """Returns the address of a client; of IPv6 the network, because a client has as many addresses as it likes."""
    parsed = _parse(address)
    if parsed is None:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else str(parsed)


@lru_cache(maxsize=64)
def names_this_machine(host: str) -> bool:
    """Returns True if the header Host can only mean this machine."""
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


def _parse(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Returns the address, of IPv4 also where a socket of IPv6 has taken the connection; None if it is none."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return (parsed.ipv4_mapped or parsed) if isinstance(parsed, ipaddress.IPv6Address) else parsed
