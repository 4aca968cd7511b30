"""Ray Train with the processes that our training uses, and no others.

Ray Train starts an actor for each thing that it can do: for datasets of Ray Data, for notices of preemption, for an
autoscaler, and for cleaning up after a controller on a cluster that stays. Each is a Python that imports Ray Data and
pandas before the first step. Its controller imports torch besides, only to name the process group. On a Ray that ends
with us the controller is a thread of the driver, and the workers are processes that Ray has at hand.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import ray
from ray.train import BackendConfig
from ray.train.backend import Backend
from ray.train.v2._internal.callbacks.datasets import DatasetsCallback
from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback
from ray.train.v2._internal.execution.controller import TrainController
from ray.train.v2._internal.execution.scaling_policy import FixedScalingPolicy
from ray.train.v2._internal.execution.worker_group import WorkerGroup, state, worker_group
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from pipelines.cluster.interface import use_interface

ALONE = {  # of Ray's settings: on a machine that nobody takes away, with no one to read metrics
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_TRAIN_ENABLE_CONTROLLER_STRUCTURED_LOGGING": "0",  # it would set up the logging of our own process
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",  # how soon the end of the workers is seen
}

BACKLOG = 2048  # workers that may wait to be let in where they meet


class LeanTrainer(DataParallelTrainer):  # type: ignore[misc]  # Ray is untyped
    """`DataParallelTrainer` without Ray Data; `embedded`: on a Ray that ends with us, which scales nothing."""

    def __init__(self, *args: Any, embedded: bool, **settings: Any) -> None:
        self._unused = (DatasetsCallback, PlacementGroupCleanerCallback) if embedded else (DatasetsCallback,)
        self._embedded, self._ended = embedded, False
        super().__init__(*args, **settings)

    def fit(self) -> Any:
        """As Ray Train's; returns its `Result`."""
        if self._embedded:
            for name, value in ALONE.items():
                os.environ.setdefault(name, value)
        return super().fit()

    def _create_default_callbacks(self) -> list[Any]:
        return [one for one in super()._create_default_callbacks() if not isinstance(one, self._unused)]

    def end(self) -> None:
        """Whoever waits for `fit` does so no more: a controller in its thread starts nothing again."""
        self._ended = True

    def _initialize_and_run_controller(self, **given: Any) -> Any:
        if not self._embedded:
            return super()._initialize_and_run_controller(**given)
        given["scaling_policy"] = _Unscaled(self.scaling_config)
        logging.getLogger("ray.train").setLevel(logging.CRITICAL)  # what went wrong is in the result
        controller = _Controller(**given)
        asyncio.run(controller.run_until(lambda: self._ended))
        return controller.get_result()


class _WorkerGroup(WorkerGroup):  # type: ignore[misc]  # Ray is untyped
    """Workers without an actor that lets them report together: ours never report to Ray Train."""

    def _start_impl(self, *args: Any) -> None:
        worker_group.SynchronizationActor, state._shutdown_sync_actor = _NoActor(), lambda _: None
        super()._start_impl(*args)

    def _init_train_context_on_workers(self, workers: Any, sync_actor: Any, arguments: dict[str, list[Any]]) -> None:
        ray.get(
            [
                worker.actor.init_train_context.remote(
                    train_run_context=self._train_run_context,
                    distributed_context=worker.distributed_context,
                    synchronization_actor=None,
                    storage_context=self._storage_context,
                    worker_callbacks=self._worker_callbacks_to_propagate,
                    controller_actor=None,
                    **{key: values[i] for key, values in arguments.items()},
                )
                for i, worker in enumerate(workers)
            ]
        )

    @staticmethod
    def _get_worker_runtime_env(custom_runtime_env: Any) -> dict[str, Any]:
        return {}  # they inherit our environment; with one of their own, Ray starts other processes than it has


class _NoActor:
    def options(self, **_: Any) -> "_NoActor":
        return self

    remote = options


class _Controller(TrainController):  # type: ignore[misc]  # Ray is untyped
    worker_group_cls = _WorkerGroup

    async def run_until(self, ended: Callable[[], bool]) -> None:
        """As `run`, until nobody waits for it any more."""
        while not self.get_state().is_terminal() and not ended():
            await self._run_control_loop_iteration()


class _Unscaled(FixedScalingPolicy):  # type: ignore[misc]  # Ray is untyped
    """Asks no autoscaler for what is there or is not."""

    def _send_resource_request(self) -> None: ...
    def _maybe_send_resource_request(self) -> None: ...
    def _cancel_resource_request(self) -> None: ...


@dataclass
class ProcessGroup(BackendConfig):  # type: ignore[misc]  # Ray is untyped
    """One torch process group of all workers, as Ray's `TorchConfig` makes it, with torch in the workers alone."""

    backend: str  # gloo, nccl
    timeout_s: int = 1800

    @property
    def backend_cls(self) -> type[Backend]:
        return _TorchBackend


class _TorchBackend(Backend):  # type: ignore[misc]  # Ray is untyped
    share_cuda_visible_devices = True

    def on_start(self, worker_group: Any, backend_config: ProcessGroup) -> None:
        place = worker_group.execute_single(0, _listen)
        group = (backend_config.backend, *place, len(worker_group), backend_config.timeout_s)
        ray.get([worker_group.execute_single_async(rank, _join, rank, *group) for rank in range(len(worker_group))])


_listening: list[socket.socket] = []  # in the first worker, from `_listen` to `_join`


def _listen() -> tuple[str, int]:
    """Opens the socket at which the workers meet, on this node's address alone: torch would open it on every interface.

    Returns its host and its port.
    """
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
