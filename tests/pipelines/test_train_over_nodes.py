"""Trainings through Ray over nodes that share nothing but a bucket, with real processes: nodes that are lost and come
back, are drained and cut off, workers that stand still, and commands that are asked to make room.

Each node has a cache of its own and, where that can be had, a network namespace of its own.
"""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.ray_nodes import Cluster, no_namespaces, ray_nodes
from bench.s3_server import Proxy, proxy_before
from model.storage import remote
from pipelines.training import journal
from tests.pipelines.test_train_in_bucket import HOME, SETTINGS

WORDS = [
    *(word for word in SETTINGS if not word.startswith(("cluster.", "train.max_steps", "train.evaluate_every"))),
    *("train.max_steps=300", "train.evaluate_every=300", "loader.lanes=2", "cluster.start_timeout=120"),
    "cluster.resize_every=2",
]
PATIENCE = 120.0  # seconds until something that must come has come


class Nodes:
    """The cluster, and what a command at its head sees of a run."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def train(self, name: str, *words: str) -> "subprocess.Popen[str]":
        return self.cluster.call("train", *WORDS, f"name={name}", f"cluster.address={self.cluster.address}", *words)

    def run(self, name: str) -> Path:
        return self.cluster.nodes["head"].cache / "dragoman-mirror" / "s3" / "bucket" / "home" / "runs" / name

    def lines(self, name: str, file: str = journal.NAME) -> list[dict[str, Any]]:
        return list(journal.lines(self.run(name) / file))

    def step(self, name: str) -> int:
        return max((int(line["step"]) for line in self.lines(name)), default=0)

    def workers(self, name: str) -> list[int]:
        return [int(line["workers"]) for line in self.lines(name, journal.STARTS)]


def wait_until(holds: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert process.poll() is None and time.monotonic() < end, end_of(process)
        time.sleep(0.05)


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
    """Shards made by the nodes, and a run on two of them to which nothing happens."""
    end_of(nodes.cluster.call("shard", *WORDS, f"cluster.address={nodes.cluster.address}"), 0)
    end_of(nodes.train("undisturbed"), 0)
    return nodes.run("undisturbed")


@pytest.fixture(autouse=True)
def _address(s3: Proxy) -> None:
    """This process finds the bucket too."""


def assert_same_run(nodes: Nodes, name: str, undisturbed: Path) -> None:
    """No step differs, none is missing, none is there twice, and the weights are the same to a rounding.

    Sums over another number of workers round otherwise, so losses are compared to six places.
    """
    mine, theirs = (
        [line for line in journal.lines(run / journal.NAME) if "batch" in line]
        for run in (nodes.run(name), undisturbed)
    )
    assert [(line["step"], line["batch"]) for line in mine] == [(line["step"], line["batch"]) for line in theirs]
    assert [line["loss"] for line in mine] == pytest.approx([line["loss"] for line in theirs], rel=1e-3)
    said = end_of(nodes.cluster.call("verify", f"name={name}"), 0)
    assert f"{name}: nothing differs" in said


def test_nodes_make_the_shards_that_one_machine_makes(nodes: Nodes, undisturbed: Path) -> None:
    alone = "s3://bucket/alone"
    end_of(nodes.cluster.call("shard", *WORDS, "cluster.backend=local", f"paths.root={alone}"), 0)
    place = "shards/phrasebook-en-de-characters"
    manifest = remote.read(f"{HOME}/{place}/manifest.json")
    assert manifest == remote.read(f"{alone}/{place}/manifest.json")
    names = [entry["name"] for split in json.loads(manifest)["splits"].values() for entry in split["shards"]]
    for name in names:
        assert remote.read(f"{HOME}/{place}/{name}") == remote.read(f"{alone}/{place}/{name}")
    made = [len(list((nodes.cluster.nodes[name].cache / "objects").glob("*/*"))) for name in ("a", "b")]
    assert all(made), "each node has made some, and keeps them"


def test_a_command_that_is_to_make_room_goes_on_at_that_very_step(nodes: Nodes, undisturbed: Path) -> None:
    process = nodes.train("yields")
    wait_until(lambda: nodes.step("yields") >= 20, process)
    process.send_signal(signal.SIGTERM)
    said = end_of(process, 75)
    stopped = nodes.step("yields")
    assert "interrupted (SIGTERM)" in said and f"step-{stopped:08d}" in said
    out = end_of(nodes.train("yields"), 0)
    assert f"found the checkpoint of step {stopped:,}" in out
    assert nodes.lines("yields", journal.STARTS)[-1]["step"] == stopped
    assert_same_run(nodes, "yields", undisturbed)


def test_a_node_that_is_lost_and_one_that_joins_change_no_step(nodes: Nodes, undisturbed: Path) -> None:
    process = nodes.train("elastic", "cluster.workers=1..2", "train.max_steps=3000")
    wait_until(lambda: nodes.step("elastic") >= 20, process)
    nodes.cluster.kill("b")
    wait_until(lambda: nodes.workers("elastic")[-1:] == [1], process)
    nodes.cluster.start("b")
    wait_until(lambda: nodes.workers("elastic")[-1:] == [2], process)
    process.send_signal(signal.SIGTERM)
    end_of(process, 75)
    starts = nodes.lines("elastic", journal.STARTS)
    assert [start["workers"] for start in starts] == [2, 1, 2]
    before, joined = starts[-2:]
    assert joined["step"] % 10 or joined["step"] > before["step"], "a checkpoint was made for the change"
    assert "nothing differs" in end_of(nodes.cluster.call("verify", "name=elastic"), 0)


def test_a_node_that_is_to_be_drained_ends_a_run_of_fixed_size_in_order(nodes: Nodes, undisturbed: Path) -> None:
    process = nodes.train("drained", "train.max_steps=3000")
    wait_until(lambda: nodes.step("drained") >= 20, process)
    nodes.cluster.drain("b", 60)
    try:
        said = end_of(process, 75)
    finally:
        nodes.cluster.kill("b")
        nodes.cluster.start("b")
    assert "a node of its workers is being drained" in said and f"step-{nodes.step('drained'):08d}" in said


def test_a_worker_that_stands_still_is_replaced_and_does_nothing_when_it_wakes_up(
    nodes: Nodes, undisturbed: Path
) -> None:
    process = nodes.train("still", "cluster.silence=5")
    wait_until(lambda: nodes.step("still") >= 20, process)
    (worker,) = nodes.cluster.processes("b", "ray::RayTrainWorker")
    worker.suspend()
    wait_until(lambda: len(nodes.workers("still")) > 1, process)
    worker.resume() if worker.is_running() else None
    end_of(process, 0)
    assert_same_run(nodes, "still", undisturbed)


@pytest.mark.skipif(bool(no_namespaces()), reason=no_namespaces() or "they can be had")
def test_a_link_that_is_cut_and_mended_changes_no_step(nodes: Nodes, undisturbed: Path) -> None:
    process = nodes.train("cut", "cluster.workers=1..2", "train.max_steps=3000")
    wait_until(lambda: nodes.step("cut") >= 20, process)
    nodes.cluster.cut("b")
    wait_until(lambda: nodes.workers("cut")[-1:] == [1], process)
    nodes.cluster.mend("b")
    reached = nodes.step("cut")
    wait_until(lambda: nodes.step("cut") > reached + 20, process)
    process.send_signal(signal.SIGTERM)
    end_of(process, 75)
    assert "nothing differs" in end_of(nodes.cluster.call("verify", "name=cut"), 0)
    nodes.cluster.start("b")
