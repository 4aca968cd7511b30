"""Free ports of this machine."""

import contextlib
import socket


def free_ports(count: int) -> list[int]:
    """Returns different TCP ports of the loopback interface that are free at this moment; bind them soon."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for socket_ in sockets:
            socket_.bind(("127.0.0.1", 0))
        return [int(socket_.getsockname()[1]) for socket_ in sockets]
