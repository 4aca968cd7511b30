"""Which hosts an address may lead to: checked where a socket is made, whatever redirects and names do.

The metadata service of a cloud gives its credentials to whoever asks from inside, so no address ever leads there.
Other private hosts are for the people of this machine; a service that runs commands of remote users sets
DRAGOMAN_PUBLIC_HOSTS in their environment, which no setting of theirs can change.
"""

import ipaddress
import os
import socket
from typing import Any

from model.errors import UserError

PUBLIC_ONLY = "DRAGOMAN_PUBLIC_HOSTS"
METADATA = tuple(map(ipaddress.ip_network, ("169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128", "100.100.100.200/32")))


def check_host(number: str) -> None:
    """Refuse an IP address that nothing may be fetched from.

    Raises:
        UserError: it is a metadata service's, or private where only public ones are allowed.
    """
    found = ipaddress.ip_address(number.partition("%")[0])
    address = getattr(found, "ipv4_mapped", None) or found
    if any(address in network for network in METADATA if network.version == address.version):
        raise UserError(f"{number}: the address of a metadata service; nothing is fetched from there")
    if os.environ.get(PUBLIC_ONLY) and not address.is_global:
        raise UserError(f"{number}: a private host, and {PUBLIC_ONLY} allows public ones only")


def checked_socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket for what `getaddrinfo` found, where `check_host` lets it."""
    family, kind, protocol, _, (number, *_) = address
    check_host(number)
    return socket.socket(family, kind, protocol)
