"""A group of workers on a cluster that is not ours: as large as there is room for, and of another size when nodes come
or go.

Which nodes there are and when to look again is Ray Train's; ours is that a change never costs a step (the workers write
a checkpoint first), that only sizes are taken that share the run's lanes evenly, and that a run may lose nodes as often
as it likes.
"""

from typing import Any

import ray
from ray.train.v2._internal.exceptions import WorkerGroupStartupTimeoutError
from ray.train.v2._internal.execution.failure_handling import DefaultFailurePolicy, FailureDecision
from ray.train.v2._internal.execution.scaling_policy import ElasticScalingPolicy, NoopDecision, ResizeDecision
from ray.train.v2.api.exceptions import ControllerError, WorkerGroupError

from pipelines.cluster.bridge import Bridge
from pipelines.cluster.lean_trainer import LeanTrainer
from pipelines.cluster.pause import PausedError


class ClusterTrainer(LeanTrainer):
    """`LeanTrainer` for a cluster that runs already.

    `tries`: how often in a row there may be no room for the workers. `bridge`: to the first rank, where it may be on a
    machine that shares nothing with this one, or where nodes come and go.
    """

    def __init__(self, *args: Any, tries: int, bridge: Bridge | None, **settings: Any) -> None:
        self._bridge, self._tries = bridge, tries
        super().__init__(*args, embedded=False, **settings)

    def _create_default_callbacks(self) -> list[Any]:
        return [*super()._create_default_callbacks(), *([self._bridge] if self._bridge else [])]

    def _initialize_and_run_controller(self, **given: Any) -> Any:
        given["failure_policy"] = _FailurePolicy(self.run_config.failure_config, self._tries)
        if self._bridge and len(self._bridge.sizes) > 1:
            given["scaling_policy"] = _ScalingPolicy(self.scaling_config, self._bridge.sizes)
        return super()._initialize_and_run_controller(**given)


class _ScalingPolicy(ElasticScalingPolicy):  # type: ignore[misc]  # Ray is untyped
    """Ray's, with our sizes, and a checkpoint before each change.

    What Ray reserves is counted from all that its nodes have, some 20 seconds ago: where a group of that size found no
    room, the next one is of what nobody uses at this moment; and none grows into what others use.
    """

    def __init__(self, scaling_config: Any, sizes: tuple[int, ...]) -> None:
        super().__init__(scaling_config)
        self._sizes = sizes
        self._tried = False  # to start a group, without having seen it run

    def make_decision_for_non_running_worker_group(self) -> Any:
        decision = super().make_decision_for_non_running_worker_group()
        self._tried = isinstance(decision, ResizeDecision)
        return decision

    def make_decision_for_running_worker_group(self, worker_group_state: Any, worker_group_status: Any) -> Any:
        self._tried = False
        decision = super().make_decision_for_running_worker_group(worker_group_state, worker_group_status)
        if not isinstance(decision, ResizeDecision):
            return decision
        more = decision.num_workers - worker_group_state.num_workers
        if Bridge.active is not None and (more < 0 or super()._count_possible_workers(_staying(_free())) >= more):
            Bridge.active.pause()  # the decision is made once more when they have ended
        return NoopDecision()

    def _count_possible_workers(self, reserved_resources: dict[str, Any]) -> int:
        room = super()._count_possible_workers(_staying(_free() if self._tried else reserved_resources))
        return max((size for size in self._sizes if size <= room), default=0)


def _free() -> dict[str, dict[str, float]]:
    """By node, what nobody uses."""
    free: dict[str, dict[str, float]] = ray._private.state.available_resources_per_node()
    return free


def _staying(rooms: dict[str, Any]) -> dict[str, Any]:
    """Those of `rooms` whose node is there and does not go away."""
    there = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    there -= ray._private.state.state.get_draining_nodes().keys()
    return {node: room for node, room in rooms.items() if node in there}


class _FailurePolicy(DefaultFailurePolicy):  # type: ignore[misc]  # Ray is untyped
    """Ray's; but a pause is none of the failures that a run may have, and of groups that did not come to run those are
    counted that did not since the last one that did: Ray counts those of the whole run."""

    def __init__(self, failure_config: Any, tries: int) -> None:
        super().__init__(failure_config)
        self._tries = tries
        self._without_room = 0

    def make_decision(self, training_failed_error: Any) -> FailureDecision:
        if isinstance(training_failed_error, WorkerGroupError):
            self._without_room = self._controller_failures = 0
            met = training_failed_error.worker_failures.values()
            if any(isinstance(problem, PausedError) for problem in met):
                return FailureDecision.RETRY
        if isinstance(training_failed_error, ControllerError) and isinstance(
            training_failed_error.controller_failure, WorkerGroupStartupTimeoutError
        ):
            self._without_room += 1
            return FailureDecision.RETRY if self._without_room < self._tries else FailureDecision.RAISE
        return super().make_decision(training_failed_error)
