"""The network interface for a node's traffic with others."""

import os

import psutil

VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


def use_interface(address: str) -> None:
    """Makes gloo listen on the interface that has this node's `address` (IP).

    By default it takes the interface of the host's name, which other nodes may not reach, and from which a Ray on the
    loopback interface must not be reached. On the loopback interface NCCL gets the same setting; elsewhere NCCL itself
    chooses the fastest interfaces. The user's own variables win.
    """
    loopback = address.startswith("127.") or address == "::1"
    for name, addresses in psutil.net_if_addrs().items():
        if any(one.address == address for one in addresses):
            for variable in VARIABLES if loopback else VARIABLES[:1]:
                os.environ.setdefault(variable, name)
