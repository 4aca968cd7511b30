"""The network interface that a node talks to the others over."""

import os

import psutil

VARIABLE = "GLOO_SOCKET_IFNAME"


def use_interface(address: str) -> None:
    """Have gloo talk over the interface that has this node's `address` (IP); by itself it takes the one that the host's
    name leads to, which other nodes may not reach. What the environment says stays."""
    if VARIABLE not in os.environ and not address.startswith("127."):
        for name, addresses in psutil.net_if_addrs().items():
            if any(one.address == address for one in addresses):
                os.environ[VARIABLE] = name
