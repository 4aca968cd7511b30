"""The address of a request's client, where proxies stand before the server.

Anybody can send X-Forwarded-For. So it counts only in a request whose connection comes from a proxy that the settings
name, and is read from its end: each proxy adds the address that it saw.
"""

import ipaddress
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.model.errors import UserError

PEER = "dragoman.peer"  # key of an ASGI scope: the address of a named proxy that sent the request
Networks = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]


def networks(key: str, proxies: Sequence[str]) -> Networks:
    """Returns the networks of a setting's addresses. Raises UserError, which names the setting `key`."""
    try:
        return tuple(ipaddress.ip_network(place) for place in proxies)
    except ValueError as problem:
        raise UserError(f"{key}: {problem}; write addresses and networks, such as [10.0.0.7,192.168.1.0/24]") from None


def client_address(peer: str, forwarded: Sequence[str], proxies: Networks) -> str:
    """Returns the address of the client: `peer`, or of a named proxy the last in `forwarded` that is no named proxy.

    `forwarded` are the values of X-Forwarded-For.
    """
    address = peer
    for hop in reversed([part.strip() for value in forwarded for part in value.split(",")]):
        if not _is_named(address, proxies):
            break
        try:
            address = str(ipaddress.ip_address(hop))
        except ValueError:  # a proxy that hides addresses writes `unknown`; nothing before it can be believed
            break
    return address


def _is_named(address: str, proxies: Networks) -> bool:
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return any(parsed in network or (mapped is not None and mapped in network) for network in proxies)


class Proxies:
    """ASGI wrapper: puts the client's address, and the scheme that it used, in the place of a named proxy's."""

    def __init__(self, app: ASGIApp, proxies: Networks) -> None:
        self.app, self.proxies = app, proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer = (scope.get("client") or ("",))[0]
        if scope["type"] == "http" and _is_named(peer, self.proxies):
            headers = Headers(scope=scope)
            address = client_address(peer, headers.getlist("x-forwarded-for"), self.proxies)
            scope["client"], scope[PEER] = (address, 0), peer
            if (scheme := headers.get("x-forwarded-proto")) in ("http", "https"):
                scope["scheme"] = scheme
        await self.app(scope, receive, send)
