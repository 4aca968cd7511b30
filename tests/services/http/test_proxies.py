"""Whose address a request has: X-Forwarded-For counts from named proxies only."""

import asyncio
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.services.http.proxies import PEER, Proxies, client_address, networks

NAMED = networks("serve.proxies", ["10.0.0.7", "192.168.1.0/24", "fd00::/8"])


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("127.0.0.1", ["6.6.6.6"], "127.0.0.1"),  # not named
        ("8.8.8.8", ["6.6.6.6"], "8.8.8.8"),
        ("10.0.0.7", [], "10.0.0.7"),
        ("10.0.0.7", ["1.2.3.4"], "1.2.3.4"),
        ("10.0.0.7", ["6.6.6.6, 1.2.3.4"], "1.2.3.4"),  # the first was sent by the client
        ("10.0.0.7", ["6.6.6.6", "1.2.3.4, 192.168.1.9"], "1.2.3.4"),  # two proxies, two headers
        ("10.0.0.7", ["6.6.6.6, unknown"], "10.0.0.7"),
        ("10.0.0.7", ["1.2.3.4, <script>"], "10.0.0.7"),
        ("::ffff:10.0.0.7", ["1.2.3.4"], "1.2.3.4"),
        ("fd00::1", ["2001:db8::5"], "2001:db8::5"),
    ],
)
def test_the_address_is_what_the_outermost_named_proxy_saw(peer: str, forwarded: list[str], address: str) -> None:
    assert client_address(peer, forwarded, NAMED) == address


def test_an_application_sees_the_client_and_the_proxy() -> None:
    scopes: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)

    for peer in ("10.0.0.7", "10.0.0.8"):
        headers = [(b"x-forwarded-for", b"1.2.3.4"), (b"x-forwarded-proto", b"https")]
        scope = {"type": "http", "client": (peer, 5), "headers": headers, "scheme": "http"}
        asyncio.run(Proxies(app, NAMED)(scope, None, None))  # type: ignore[arg-type]  # nothing is received or sent
    assert [(one["client"][0], one.get(PEER), one["scheme"]) for one in scopes] == [
        ("1.2.3.4", "10.0.0.7", "https"),
        ("10.0.0.8", None, "http"),
    ]


def test_what_is_no_address_is_named() -> None:
    with pytest.raises(UserError, match=r"serve\.proxies: 'proxy'"):
        networks("serve.proxies", ["proxy"])
