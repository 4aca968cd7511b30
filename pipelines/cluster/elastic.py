"""A group of workers on a cluster that is not ours: as large as there is room for, and of another size when nodes come
or go.

Which nodes there are and when to look again is Ray Train's; ours is that a change never costs a step (the workers write
a checkpoint first) and that only sizes are taken that share the run's lanes evenly.
"""

from typing import Any

import ray
from ray.train.v2._internal.execution.failure_handling import DefaultFailurePolicy, FailureDecision
from ray.train.v2._internal.execution.scaling_policy import ElasticScalingPolicy, NoopDecision, ResizeDecision
from ray.train.v2.api.exceptions import WorkerGroupError

from pipelines.cluster.bridge import Bridge
from pipelines.cluster.lean_trainer import LeanTrainer
from pipelines.cluster.pause import PausedError


class ClusterTrainer(LeanTrainer):
    """`LeanTrainer` for a cluster that runs already, with a bridge to the first rank."""

    def __init__(self, *args: Any, bridge: Bridge, **settings: Any) -> None:
        self._bridge = bridge
        super().__init__(*args, embedded=False, **settings)

    def _create_default_callbacks(self) -> list[Any]:
        return [*super()._create_default_callbacks(), self._bridge]

    def _initialize_and_run_controller(self, **given: Any) -> Any:
        given["failure_policy"] = _FailurePolicy(self.run_config.failure_config)
        if len(self._bridge.sizes) > 1:
            given["scaling_policy"] = _ScalingPolicy(self.scaling_config, self._bridge.sizes)
        return super()._initialize_and_run_controller(**given)


class _ScalingPolicy(ElasticScalingPolicy):  # type: ignore[misc]  # Ray is untyped
    """Ray's, with our sizes, and a checkpoint before each change."""

    def __init__(self, scaling_config: Any, sizes: tuple[int, ...]) -> None:
        super().__init__(scaling_config)
        self._sizes = sizes

    def make_decision_for_running_worker_group(self, *args: Any, **given: Any) -> Any:
        decision = super().make_decision_for_running_worker_group(*args, **given)
        if isinstance(decision, ResizeDecision):  # made once more when they have ended
            if Bridge.active is not None:
                Bridge.active.pause()
            return NoopDecision()
        return decision

    def _count_possible_workers(self, reserved_resources: dict[str, Any]) -> int:
        going = ray._private.state.state.get_draining_nodes()
        staying = {node: room for node, room in reserved_resources.items() if node not in going}
        room = super()._count_possible_workers(staying)
        return max((size for size in self._sizes if size <= room), default=0)


class _FailurePolicy(DefaultFailurePolicy):  # type: ignore[misc]  # Ray is untyped
    """Ray's; a pause is none of the failures that a run may have."""

    def make_decision(self, training_failed_error: Any) -> FailureDecision:
        if isinstance(training_failed_error, WorkerGroupError):
            met = training_failed_error.worker_failures.values()
            if any(isinstance(problem, PausedError) for problem in met):
                return FailureDecision.RETRY
        return super().make_decision(training_failed_error)
