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
# of clouds: link-local ones, AWS (IMDS, EKS), Google, Scaleway, Linode; Alibaba, Oracle, Azure's wire server
METADATA = (
    *("169.254.0.0/16", "fe80::/10", "fd00:ec2::/32", "fd20:ce::254/128", "fd00:42::42/128", "fd00:a9fe:a9fe::/48"),
    *("100.100.100.200/32", "192.0.0.192/32", "168.63.129.16/32"),
)
# networks of IPv6 whose addresses hold one of IPv4, and the bits below it: NAT64 (RFC 6052, RFC 8215), compatible ones
EMBEDDING = (("64:ff9b::/96", 0), ("64:ff9b:1::/48", 0), ("::/96", 0), ("::ffff:0:0:0/96", 0), ("2002::/16", 80))
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def check_host(number: str) -> None:
    """Refuses an IP address that must not be reached."""
    addresses = reached(ipaddress.ip_address(number.partition("%")[0]))
    if any(address in ipaddress.ip_network(network) for address in addresses for network in METADATA):
        raise UserError(f"{number}: the address of a metadata service; nothing is fetched from there")
    if os.environ.get(PUBLIC_ONLY) and not all(address.is_global for address in addresses):
        raise UserError(f"{number}: a private host, and {PUBLIC_ONLY} allows public ones only")


def reached(address: Address) -> list[Address]:
    """Returns the addresses that a packet to this one may reach: a gateway translates some of IPv6 into IPv4."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    embedded = [
        ipaddress.IPv4Address(int(address) >> shift & 0xFFFFFFFF)
        for network, shift in EMBEDDING
        if address in ipaddress.ip_network(network)
    ]
    return [address, *embedded, *(address.teredo or ())]


def checked_socket(address: tuple[Any, ...]) -> socket.socket:
    """Makes a socket for a result of `getaddrinfo`, if `check_host` allows it."""
    family, kind, protocol, _, (number, *_) = address
    check_host(number)
    return socket.socket(family, kind, protocol)
