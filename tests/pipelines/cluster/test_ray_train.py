"""The group of workers under real Ray: whose mistake ends it, and how long it waits for room."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.errors import UserError
from dragoman.pipelines.cluster import map, ray_train
from dragoman.pipelines.cluster.actors import GroupFailedError
from dragoman.pipelines.cluster.embedded_ray import StartError
from dragoman.pipelines.cluster.ray_train import most_threads
from dragoman.pipelines.settings import Backend, ClusterConfig

SCRIPT = """
import json, logging, os, pathlib, sys
import psutil
from dragoman.model.errors import ServiceError, UserError
from dragoman.pipelines.cluster.map import connect_ray
from dragoman.pipelines.cluster.ray_train import fit
from dragoman.pipelines.settings import ClusterConfig

folder = pathlib.Path(sys.argv[1])

def mistake(function, **changes):
    try:
        fit(function, str(folder), ClusterConfig(workers=2, device="cpu", **changes), folder / "ray", "run")
    except (UserError, ServiceError) as problem:
        return str(problem)

def train(folder, ranks):
    with open(folder + "/starts", "a") as file:
        file.write(str(ranks.rank))
    if ranks.rank == 1:
        driver = psutil.Process(int((pathlib.Path(folder) / "driver").read_text()))
        sockets = [
            [" ".join(process.cmdline()[:3]), connection.laddr.ip]
            for process in [driver, *driver.children(recursive=True)]
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        (pathlib.Path(folder) / "sockets").write_text(json.dumps(sockets))
        raise UserError("shard-00001.tar: damaged")
    ranks.wait()  # for a rank that never comes

logging.basicConfig(level=logging.INFO, format="%(message)s")
(folder / "driver").write_text(str(os.getpid()))
with connect_ray(ClusterConfig(workers=2, device="cpu")):
    import ray  # after the variables that it reads
    found = {"damaged": mistake(train), "starts": (folder / "starts").read_text()}
    found["sockets"] = json.loads((folder / "sockets").read_text())
    found["cpus"] = ray.cluster_resources()["CPU"]
    taken = ray.util.placement_group([{"CPU": found["cpus"] - 1}])
    ray.get(taken.ready())
    found["busy"] = mistake(print, start_timeout=12)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of both, and what was logged; in a process of its own, for Ray leaves things behind."""
    folder = tmp_path_factory.mktemp("cluster")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "log": done.stderr}


@pytest.mark.long
def test_a_mistake_that_one_rank_meets_ends_the_others_at_once(outcome: dict[str, Any]) -> None:
    assert outcome["damaged"] == "shard-00001.tar: damaged"
    starts = outcome["starts"]  # of each rank once: another start would meet the same mistake
    assert starts.count("1") == 1
    assert starts.count("0") <= 1  # it may be ended before it comes that far


@pytest.mark.long
def test_workers_wait_for_room_only_so_long(outcome: dict[str, Any]) -> None:
    room = f"room for 2 workers with 1 CPU each; free in the cluster: 1 of {outcome['cpus']:g} CPUs"
    assert outcome["busy"].startswith(f"cluster.start_timeout=12: in so many seconds there was no {room}. Wait for ")
    assert f"waiting for {room}" in outcome["log"]


@pytest.mark.long
def test_every_socket_of_a_training_is_on_the_loopback_interface(outcome: dict[str, Any]) -> None:
    """Those of Ray, and those at which the workers meet and exchange gradients."""
    sockets = outcome["sockets"]
    workers = [name for name, _ in sockets if "ray::Worker" in name]
    assert len(workers) >= 5  # Ray's and gloo's of two workers, and the one where they meet
    assert {address.removeprefix("::ffff:") for _, address in sockets} == {"127.0.0.1"}


INTERRUPTED = """
import os, pathlib, signal, sys, threading, time
from dragoman.conf.interrupts import Interrupted, interruptible
from dragoman.pipelines.cluster.map import connect_ray
from dragoman.pipelines.cluster.ray_train import fit
from dragoman.pipelines.settings import ClusterConfig

def train(folder, ranks):
    time.sleep(100)

folder, after = sys.argv[1:]
config = ClusterConfig(workers=2, device="cpu")
with interruptible():
    try:
        with connect_ray(config):
            threading.Timer(float(after), os.kill, (os.getpid(), signal.SIGTERM)).start()
            fit(train, folder, config, pathlib.Path(folder), "run")
    except Interrupted as problem:
        sys.exit(problem.code)
"""


@pytest.mark.long
@pytest.mark.parametrize("after", [0.1, 0.5, 2.0, 5.0])
def test_a_signal_ends_a_group_before_ray_is_shut_down(after: float, tmp_path: Path) -> None:
    """A thread that still asks Ray then ends the process, by SIGSEGV or with 1."""
    words = [sys.executable, "-c", INTERRUPTED, str(tmp_path), str(after)]
    done = subprocess.run(words, cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stderr) == (143, "")


@pytest.mark.parametrize(
    ("address", "cpus", "most"), [(None, 1.0, 0), ("auto", 1.0, 1), ("h:6379", 2.5, 2), ("auto", 0.5, 1)]
)
def test_on_a_shared_cluster_a_worker_computes_with_what_it_has_reserved(
    address: str | None, cpus: float, most: int
) -> None:
    assert most_threads(ClusterConfig(address=address, cpus_per_worker=cpus)) == most


@pytest.mark.parametrize(("backend", "then"), [("auto", "local"), ("local", "local"), ("ray", None)])
def test_without_its_own_ray_a_command_continues_alone_unless_it_must_use_ray(
    monkeypatch: pytest.MonkeyPatch, backend: Backend, then: str | None
) -> None:
    def away(_: ClusterConfig) -> None:
        raise StartError("Ray did not start: the raylet took 30 s")

    monkeypatch.setattr(map, "connect_ray", away)
    config = ClusterConfig(backend=backend)
    if then is None:
        with pytest.raises(StartError, match="the raylet took 30 s"), map.connect(config):
            pass
    else:
        with map.connect(config) as place:
            assert place == ClusterConfig(backend="local")


def groups(*came: object) -> list[int]:
    """The numbers of the groups that were run, of which one after another came to these ends."""
    run = []

    def group(attempt: int) -> bool:
        run.append(attempt)
        if isinstance(end := came[attempt], Exception):
            raise end
        return bool(end)

    ray_train.run_groups(group, max_failures=2)
    return run


def test_a_group_that_fails_or_pauses_is_followed_by_another(caplog: pytest.LogCaptureFixture) -> None:
    lost = GroupFailedError("a node is lost\nTraceback", [])
    full = GroupFailedError("worker 0 failed\nTraceback", [None, OSError(28, "No space left on device", "/runs/a")])
    assert groups(False) == [0]
    assert groups(True, True, True, lost, True, full, False) == [0, 1, 2, 3, 4, 5, 6], "a pause is no failure"
    said = "the workers have failed and are started again"
    assert caplog.messages == [
        f"{said} (1 of 2 times): a node is lost",
        f"{said} (2 of 2 times): [Errno 28] No space left on device: '/runs/a'",
    ]
    with pytest.raises(RuntimeError, match="a node is lost"):
        groups(lost, True, lost, lost, False)
    with pytest.raises(UserError, match=r"^damaged$"):
        groups(GroupFailedError("it failed", [RuntimeError(), UserError("damaged")]), False)


@pytest.mark.parametrize(
    ("total", "free", "tried", "found"), [(8, 8, [8], 8), (8, 5, [8, 4], 4), (6, 3, [4, 2], 2), (6, 1, [4, 2, 1], 1)]
)
def test_the_largest_group_that_there_is_room_for_is_started(
    monkeypatch: pytest.MonkeyPatch, total: int, free: int, tried: list[int], found: int
) -> None:
    asked = []

    def has_room(_: dict[str, float], workers: int, patience: float) -> bool:
        asked.append(workers)
        return workers <= free

    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": float(total)})
    monkeypatch.setattr(ray_train, "_has_room", has_room)
    assert ray_train._find_room((1, 2, 4, 8), {"CPU": 1.0}, within=0.0) == found
    assert asked == tried
