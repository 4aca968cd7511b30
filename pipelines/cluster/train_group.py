"""Runs a group of training workers by Ray Train: on a cluster whose nodes come and go, and on GPUs."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray import train
from ray.train.backend import Backend
from ray.train.torch import TorchConfig, TorchTrainer

from dragoman.pipelines.cluster import meeting
from dragoman.pipelines.cluster.actors import GroupFailedError, Place
from dragoman.pipelines.settings import ClusterConfig

ALONE = {  # Ray Train's settings on a private machine without readers of metrics
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",  # how soon the end of the workers is noticed
}


def prepare(
    function: Callable[[Place], bool],
    size: int,
    per_worker: Mapping[str, float],
    backend: str,
    config: ClusterConfig,
    storage: Path,
    name: str,
) -> Callable[[], bool]:
    """Returns what runs `function` on `size` workers and returns its value on the first. It raises GroupFailedError."""
    os.environ["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] = str(config.start_timeout)
    os.environ.setdefault("RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S", str(config.silence))
    for variable, value in ALONE.items() if config.address is None else ():
        os.environ.setdefault(variable, value)
    trainer = TorchTrainer(
        partial(_worker, function),
        torch_config=ProcessGroup(backend),
        scaling_config=train.ScalingConfig(
            num_workers=size, use_gpu="GPU" in per_worker, resources_per_worker=dict(per_worker)
        ),
        run_config=train.RunConfig(
            name=name,
            storage_path=str(storage),
            failure_config=train.FailureConfig(0, controller_failure_limit=0, max_preemption_failures=0),
        ),
    )

    def fit() -> bool:
        try:
            return bool(trainer.fit().return_value)
        except train.TrainingFailedError as problem:
            raise GroupFailedError(str(problem), getattr(problem, "worker_failures", {}).values()) from problem

    return fit


def _worker(function: Callable[[Place], bool]) -> bool:
    context = train.get_context()
    return function(
        Place(
            context.get_world_rank(), context.get_world_size(), context.get_local_rank(), context.get_local_world_size()
        )
    )


@dataclass
class ProcessGroup(TorchConfig):  # type: ignore[misc]  # Ray is untyped
    """Ray's, but it listens only at its node's address."""

    @property
    def backend_cls(self) -> type[Backend]:
        return _Meeting


class _Meeting(Backend):  # type: ignore[misc]  # Ray is untyped
    share_cuda_visible_devices = True

    def on_start(self, worker_group: Any, backend_config: ProcessGroup) -> None:
        place = worker_group.execute_single(0, meeting.listen)
        group = (len(worker_group), backend_config.backend, backend_config.timeout_s, *place)
        ray.get([worker_group.execute_single_async(rank, meeting.join, rank, *group) for rank in range(group[0])])
