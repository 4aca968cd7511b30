"""The network interface that a node talks to the others over."""

import os

import psutil

VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


def use_interface(address: str) -> None:
    """Have gloo listen on the interface that has this node's `address` (IP).

    By itself it takes the interface that the host's name leads to: other nodes may not reach that one, and a Ray on the
    loopback interface must not be reached from it. On the loopback interface NCCL gets the same setting; elsewhere NCCL
    chooses the fastest interfaces itself. Variables that the user set stay.
    """
    loopback = address.startswith("127.") or address == "::1"
    for name, addresses in psutil.net_if_addrs().items():
        if any(one.address == address for one in addresses):
            for variable in VARIABLES if loopback else VARIABLES[:1]:
                os.environ.setdefault(variable, name)
