"""When a group of workers is started, of another size, or not again; Ray's own decisions and nodes are played."""

from types import SimpleNamespace
from typing import Any

import pytest
from ray.train import FailureConfig
from ray.train.v2._internal.exceptions import WorkerGroupStartupTimeoutError
from ray.train.v2._internal.execution.failure_handling import FailureDecision
from ray.train.v2._internal.execution.scaling_policy import ElasticScalingPolicy, NoopDecision, ResizeDecision
from ray.train.v2.api.exceptions import ControllerError, WorkerGroupError

from pipelines.cluster import elastic
from pipelines.cluster.bridge import Bridge
from pipelines.cluster.pause import PausedError

NO_ROOM = ControllerError(WorkerGroupStartupTimeoutError(num_workers=2))
LOST = WorkerGroupError("a node is lost", {1: RuntimeError()})
PAUSED = WorkerGroupError("nodes have come", {0: PausedError(), 1: RuntimeError()})


def test_a_run_may_lose_nodes_and_wait_for_room_each_time() -> None:
    policy = elastic._FailurePolicy(FailureConfig(max_failures=4, controller_failure_limit=4), tries=3)
    for _ in range(4):
        assert [policy.make_decision(what) for what in (LOST, NO_ROOM, NO_ROOM)] == [FailureDecision.RETRY] * 3
    for _ in range(10):
        assert policy.make_decision(PAUSED) is FailureDecision.RETRY, "a pause is no failure"
    assert policy.make_decision(LOST) is FailureDecision.RAISE, "five are more than max_failures"


def test_room_that_never_comes_ends_the_run() -> None:
    policy = elastic._FailurePolicy(FailureConfig(max_failures=4, controller_failure_limit=4), tries=3)
    assert [policy.make_decision(NO_ROOM) for _ in range(3)] == [FailureDecision.RETRY] * 2 + [FailureDecision.RAISE]


class Played:
    """A cluster of three nodes with two cores each, of which others use some."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = {"a": 2.0, "b": 2.0, "c": 2.0}
        self.there = set(self.free)
        self.paused = 0
        monkeypatch.setattr(elastic, "_free", lambda: {node: {"CPU": n} for node, n in self.free.items()})
        monkeypatch.setattr(elastic, "_staying", lambda rooms: {n: rooms[n] for n in rooms if n in self.there})
        monkeypatch.setattr(ElasticScalingPolicy, "_maybe_send_resource_request", lambda self: None)
        reserved = {node: {"CPU": 2.0} for node in self.free}
        monkeypatch.setattr(ElasticScalingPolicy, "_get_reserved_resources", lambda self: reserved)
        monkeypatch.setattr(Bridge, "active", SimpleNamespace(pause=self.pause))
        scaling: Any = SimpleNamespace(
            _resources_per_worker_not_none={"CPU": 1.0},
            min_workers=1,
            max_workers=8,
            use_tpu=False,
            elastic_resize_monitor_interval_s=0.0,
        )
        self.policy = elastic._ScalingPolicy(scaling, (1, 2, 4, 8))

    def pause(self) -> None:
        self.paused += 1

    def start(self) -> int:
        """How many workers it wants to start; 0: none yet."""
        decision = self.policy.make_decision_for_non_running_worker_group()
        return decision.num_workers if isinstance(decision, ResizeDecision) else 0

    def look(self, workers: int) -> int:
        """Whether a running group is paused for another size."""
        before, state = self.paused, SimpleNamespace(num_workers=workers, start_time=0.0)
        assert isinstance(self.policy.make_decision_for_running_worker_group(state, None), NoopDecision)
        return self.paused - before


def test_a_group_that_found_no_room_is_tried_with_what_nobody_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch)
    played.free = {"a": 2.0, "b": 0.0, "c": 0.0}
    assert (played.start(), played.start()) == (4, 2), "Ray reserves all six cores; others use four"
    played.look(2)
    assert played.start() == 4, "it ran: Ray's word counts again"


def test_a_node_that_is_lost_or_drained_is_not_counted_though_ray_still_reserves_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = Played(monkeypatch)
    played.there = {"a"}
    assert played.start() == 2


def test_a_group_grows_into_what_is_free_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch)
    played.free = {"a": 0.0, "b": 0.0, "c": 1.0}
    assert not played.look(2), "two more workers want two cores"
    played.free = {"a": 0.0, "b": 1.0, "c": 1.0}
    assert played.look(2)
    assert not played.look(4), "eight are more than the cluster has"
