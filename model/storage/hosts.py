"""Restricts the hosts that an address may reach: checked when a socket is made, after redirects and name lookup.

A cloud's metadata service gives its credentials to any local process, so no address ever reaches it. Other private
hosts are for local users only. A service that runs commands of remote users sets DRAGOMAN_PUBLIC_HOSTS in their
environment; no setting of theirs can change it.
"""

import ipaddress
import os
import socket
from typing import Any

from dragoman.model.errors import UserError

PUBLIC_ONLY = "DRAGOMAN_PUBLIC_HOSTS"
METADATA = tuple(map(ipaddress.ip_network, ("169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128", "100.100.100.200/32")))


def check_host(number: str, public: bool | None = None) -> None:
    """Refuses an IP address that must not be reached. `public`: only public ones may be; None: as the variable says.

    Raises:
        UserError: it is a metadata service's, or private when only public ones are allowed.
    """
    found = ipaddress.ip_address(number.partition("%")[0])
    address = getattr(found, "ipv4_mapped", None) or found
    if any(address in network for network in METADATA if network.version == address.version):
        raise UserError(f"{number}: the address of a metadata service; nothing is fetched from there")
    if public and not address.is_global:
        raise UserError(f"{number}: a private host, and only public ones are allowed here")
    if public is None and os.environ.get(PUBLIC_ONLY) and not address.is_global:
        raise UserError(f"{number}: a private host, and {PUBLIC_ONLY} allows public ones only")


def checked_socket(address: tuple[Any, ...]) -> socket.socket:
    """Makes a socket for a result of `getaddrinfo`, if `check_host` allows it."""
    family, kind, protocol, _, (number, *_) = address
    check_host(number)
    return socket.socket(family, kind, protocol)
