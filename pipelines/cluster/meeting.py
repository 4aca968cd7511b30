"""Where the workers of a group meet: one torch process group, only on the nodes' own addresses.

Without this torch opens the first worker's socket on every interface, and gloo listens on the interface of the host's
name, which other nodes may not reach, and from which a Ray on the loopback interface must not be reached.
"""

import os
import socket
from datetime import timedelta

import psutil
import torch.distributed as dist

VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
BACKLOG = 2048  # workers that may wait for a connection
_listening: list[socket.socket] = []  # in the first worker, from `listen` to `join`


def listen() -> tuple[str, int]:
    """Opens the socket at which the workers meet, in the first worker. Returns its host and its port."""
    host = _own_address()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    meeting = socket.create_server((host, 0), family=family, backlog=BACKLOG)
    _listening[:] = [meeting]
    return host, meeting.getsockname()[1]


def join(rank: int, world: int, backend: str, timeout_s: float, host: str, port: int) -> None:
    """Joins the group of `world` workers that meet at `host` and `port`."""
    use_interface(_own_address())
    timeout = timedelta(seconds=timeout_s)
    open_socket = _listening.pop().detach() if rank == 0 else None
    store = dist.TCPStore(  # type: ignore[attr-defined]  # documented, and not in its __all__
        host, port, world, is_master=rank == 0, timeout=timeout, wait_for_workers=False, master_listen_fd=open_socket
    )
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=timeout)


def use_interface(address: str) -> None:
    """Makes gloo listen on the interface that has this node's `address` (IP).

    On the loopback interface NCCL gets the same setting; elsewhere NCCL itself chooses the fastest interfaces. The
    user's own variables win.
    """
    loopback = address.startswith("127.") or address == "::1"
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address == address for each in addresses):
            for variable in VARIABLES if loopback else VARIABLES[:1]:
                os.environ.setdefault(variable, name)


def _own_address() -> str:
    import ray

    address: str = ray.util.get_node_ip_address()
    return address
