"""One torch process group of all workers, like Ray's own `TorchConfig`, but only on the nodes' own addresses."""

import socket
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import ray
from ray.train.backend import Backend
from ray.train.torch import TorchConfig

from dragoman.pipelines.cluster.interface import use_interface

BACKLOG = 2048  # workers that may wait for a connection


@dataclass
class ProcessGroup(TorchConfig):  # type: ignore[misc]  # Ray is untyped
    """Ray's, but the first worker opens its socket at its node's address; torch opens it on every interface."""

    @property
    def backend_cls(self) -> type[Backend]:
        return _Meeting


class _Meeting(Backend):  # type: ignore[misc]  # Ray is untyped
    share_cuda_visible_devices = True

    def on_start(self, worker_group: Any, backend_config: ProcessGroup) -> None:
        place = worker_group.execute_single(0, _listen)
        group = (backend_config.backend, *place, len(worker_group), backend_config.timeout_s)
        ray.get([worker_group.execute_single_async(rank, _join, rank, *group) for rank in range(len(worker_group))])


_listening: list[socket.socket] = []  # in the first worker, from `_listen` to `_join`


def _listen() -> tuple[str, int]:
    """Opens the socket at which the workers meet. Returns its host and its port."""
    host = ray.util.get_node_ip_address()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    meeting = socket.create_server((host, 0), family=family, backlog=BACKLOG)
    _listening[:] = [meeting]
    return host, meeting.getsockname()[1]


def _join(rank: int, backend: str, host: str, port: int, world: int, timeout_s: int) -> None:
    import torch.distributed as dist

    use_interface(ray.util.get_node_ip_address())
    timeout = timedelta(seconds=timeout_s)
    open_socket = _listening.pop().detach() if rank == 0 else None
    store = dist.TCPStore(  # type: ignore[attr-defined]  # documented, and not in its __all__
        host,
        port,
        world,
        is_master=rank == 0,
        timeout=timeout,
        wait_for_workers=False,
        master_listen_fd=open_socket,
    )
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=timeout)
