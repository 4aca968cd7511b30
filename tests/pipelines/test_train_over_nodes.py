"""Trainings through Ray over nodes that share nothing but a bucket, with real processes: nodes that are lost and come
back, are drained and cut off, workers that stand still, and commands that are asked to make room.

Each node has a cache of its own and, where that can be had, a network namespace of its own.
"""

import contextlib
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from dragoman.model.runs import journal, paths
from tests.pipelines.processes import wait_for
from tests.pipelines.ray_nodes import Cluster, no_namespaces, ray_nodes
from tests.pipelines.test_train_in_bucket import SETTINGS, wait_for_checkpoint
from tests.s3_server import Proxy, proxy_before

pytestmark = pytest.mark.long
HOME = "s3://bucket/nodes"
STEPS = 300  # of the run to which nothing happens
WORDS = [
    *(word for word in SETTINGS if not word.startswith(("cluster.", "train.max_steps", "train.evaluate_every"))),
    *(f"train.max_steps={STEPS}", f"train.evaluate_every={STEPS}", "loader.lanes=2", "cluster.start_timeout=120"),
    "cluster.resize_every=2",
    *("train.optimizer.schedule=inverse_sqrt", "train.optimizer.warmup_steps=10"),  # which follow from the steps else
]
PATIENCE = 120.0  # seconds until something that must come has come


class Nodes:
    """The cluster, and what a command at its head sees of a run."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def train(self, name: str, *words: str) -> "subprocess.Popen[str]":
        return self.cluster.call("train", *WORDS, f"name={name}", f"cluster.address={self.cluster.address}", *words)

    def run(self, name: str) -> Path:
        return self.cluster.nodes["head"].cache / "dragoman-mirror" / "s3" / "bucket" / "nodes" / "runs" / name

    def lines(self, name: str, file: str = paths.STEPS) -> list[dict[str, Any]]:
        return list(journal.lines(self.run(name) / file))

    def step(self, name: str) -> int:
        return max((int(line["step"]) for line in self.lines(name)), default=0)

    def workers(self, name: str) -> list[int]:
        return [int(line["workers"]) for line in self.lines(name, paths.STARTS)]


def end_of(process: "subprocess.Popen[str]", code: int | None = None) -> str:
    """What a command has printed; it is ended where it goes on for too long."""
    try:
        out, _ = process.communicate(timeout=PATIENCE if code is not None else 1)
    except subprocess.TimeoutExpired:
        process.kill()
        out = f"went on for too long\n{process.communicate()[0]}"
    assert code is None or process.returncode == code, out
    return out


@pytest.fixture(scope="module")
def nodes(s3_process: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("nodes")
    with (
        ray_nodes(folder, {"DRAGOMAN_HOME": HOME, "OMP_NUM_THREADS": "1"}, not no_namespaces()) as cluster,
        proxy_before(s3_process.behind, cluster.host) as bucket,
    ):
        cluster.environment = {**cluster.environment, **bucket.environment}
        cluster.start("head", 0)
        cluster.start("a")
        cluster.start("b")
        yield Nodes(cluster)


@pytest.fixture(scope="module")
def undisturbed(nodes: Nodes) -> Path:
    """Shards, and a run of one process without Ray to which nothing happens."""
    end_of(nodes.cluster.call("shard", *WORDS, f"cluster.address={nodes.cluster.address}"), 0)
    end_of(nodes.cluster.call("train", *WORDS, "name=undisturbed", "cluster.backend=local"), 0)
    return nodes.run("undisturbed")


@pytest.fixture(autouse=True)
def _address(s3: Proxy) -> None:
    """This process finds the bucket too."""


def assert_same_run(nodes: Nodes, name: str, undisturbed: Path) -> None:
    """No step differs, none is missing, none is there twice; the losses are the same to a rounding, since sums over
    another number of workers round otherwise."""
    mine, theirs = (
        {line["step"]: line for line in journal.lines(run / paths.STEPS) if "batch" in line}
        for run in (nodes.run(name), undisturbed)
    )
    assert len(theirs) == STEPS and list(mine)[:STEPS] == list(theirs)
    for step, line in theirs.items():
        assert mine[step]["batch"] == line["batch"]
        assert mine[step]["loss"] == pytest.approx(line["loss"], rel=1e-3)
    said = end_of(nodes.cluster.call("verify", f"name={name}"), 0)
    assert f"{name}: nothing differs" in said


def lose(cluster: Cluster, how: str) -> None:
    match how:
        case "killed":
            cluster.kill("b")
        case "cut off":
            cluster.cut("b")
        case _:
            cluster.drain("b", 60)


def regain(cluster: Cluster, how: str) -> None:
    if how == "cut off":
        cluster.mend("b")
    cluster.start("b")  # anew


@pytest.mark.parametrize(
    "how",
    [
        "killed",
        "drained",
        pytest.param(
            "cut off", marks=pytest.mark.skipif(bool(no_namespaces()), reason=no_namespaces() or "can be had")
        ),
    ],
)
def test_a_node_that_is_lost_and_joins_again_changes_no_step(nodes: Nodes, undisturbed: Path, how: str) -> None:
    name = how.replace(" ", "-")
    words = (name, "cluster.workers=1..2", "train.max_steps=100_000")
    process = nodes.train(*words)
    wait_for(lambda: nodes.step(name) >= 20, process)
    lose(nodes.cluster, how)
    wait_for(lambda: nodes.workers(name)[-1] == 1, process)
    regain(nodes.cluster, how)
    wait_for(lambda: nodes.workers(name)[-1] == 2, process)
    alone, joined = nodes.lines(name, paths.STARTS)[-2:]
    assert joined["step"] % 10 or joined["step"] > alone["step"], "a checkpoint was made for the change"
    wait_for(lambda: nodes.step(name) > max(STEPS, joined["step"] + 20), process)
    process.send_signal(signal.SIGTERM)
    said = end_of(process, 143)
    stopped = nodes.step(name)
    assert "interrupted (SIGTERM)" in said and f"step-{stopped:08d}" in said
    if how == "drained":  # once is enough
        out = end_of(nodes.train(*words, f"train.max_steps={stopped + 20}"), 0)
        assert f"found the checkpoint of step {stopped:,}" in out
        assert nodes.lines(name, paths.STARTS)[-1]["step"] == stopped, "the same command goes on at that very step"
    assert_same_run(nodes, name, undisturbed)


def test_a_worker_that_stands_still_is_replaced_and_a_drained_node_ends_a_run_of_fixed_size_in_order(
    nodes: Nodes, undisturbed: Path
) -> None:
    process = nodes.train("fixed", "cluster.silence=5", "train.max_steps=100_000")
    wait_for_checkpoint(nodes.run("fixed"), process)
    (worker,) = nodes.cluster.processes("b", "ray::RayTrainWorker")
    worker.suspend()
    wait_for(lambda: len(nodes.workers("fixed")) > 1, process)
    with contextlib.suppress(psutil.NoSuchProcess):
        worker.resume()
    wait_for(lambda: nodes.step("fixed") > STEPS, process)
    nodes.cluster.drain("b", 60)
    said = end_of(process, 75)
    assert "a node of its workers is being drained" in said and f"step-{nodes.step('fixed'):08d}" in said
    assert_same_run(nodes, "fixed", undisturbed)
