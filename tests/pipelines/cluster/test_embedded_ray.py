"""An embedded Ray is out of reach: of other machines, of other users, and of a cluster beside it."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import ray

from pipelines.cluster import embedded_ray, ray_train
from pipelines.settings import ClusterConfig

AGENT_PORT = 52365  # of a cluster that somebody starts with `ray start`


def environment_of_task(_: int) -> dict[str, str]:
    import os

    return {name: value for name, value in os.environ.items() if name.startswith("RAY_AUTH")}


def test_an_embedded_ray_listens_on_loopback_at_free_ports_with_a_token_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "the user's")
    monkeypatch.setenv("RAY_ADDRESS", "192.0.2.1:6379")  # the user's cluster, which is not meant
    monkeypatch.setenv("HOME", str(tmp_path))
    with ray_train.connect_ray(ClusterConfig()):
        (known,) = ray_train.map_tasks(environment_of_task, [0], ClusterConfig())
        me = psutil.Process()
        places = [
            connection.laddr
            for process in (me, *me.children(recursive=True))
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
    assert len(places) > 5
    assert {place.ip.removeprefix("::ffff:") for place in places} == {"127.0.0.1"}
    assert AGENT_PORT not in {place.port for place in places}
    token = Path(known.pop("RAY_AUTH_TOKEN_PATH"))
    assert known == {"RAY_AUTH_MODE": "token"}
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert len(token.read_text(encoding="utf-8")) == 64
    assert environment_of_task(0) == {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": "the user's"}
    assert not (tmp_path / ".ray").exists()


def test_a_ray_that_was_begun_is_the_one_that_is_used_and_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "the user's")
    with embedded_ray.begin_ray("cpu"):
        assert embedded_ray.is_begun()
        with ray_train.connect_ray(ClusterConfig()):
            assert not embedded_ray.is_begun()
            (known,) = ray_train.map_tasks(environment_of_task, [0], ClusterConfig())
        assert known["RAY_AUTH_MODE"] == "token"
        assert not ray.is_initialized()
    with embedded_ray.begin_ray("cpu"):  # a command that is refused asks for none
        pass
    assert not ray.is_initialized() and not embedded_ray.is_begun()
    assert environment_of_task(0) == {"RAY_AUTH_TOKEN": "the user's"}


def test_workers_are_forked_only_where_their_socket_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delitem(sys.modules, "ray")
    assert embedded_ray.can_fork(Path("/tmp/workers"))
    assert not embedded_ray.can_fork(Path("/tmp", "x" * 100, "workers"))
    monkeypatch.setitem(sys.modules, "ray", ray)
    assert not embedded_ray.can_fork(Path("/tmp/workers"))


FORKS = """
import json, os, signal, sys, time
import psutil
from pipelines.cluster import embedded_ray, ray_train
from pipelines.settings import ClusterConfig

def modules_of_task():
    return os.getpid(), os.getppid(), "fractions" in sys.modules, os.environ.get("RAY_AUTH_MODE")

with embedded_ray.begin_ray("cpu", ["fractions"]), ray_train.connect_ray(ClusterConfig()):
    import ray  # the driver has it only now: a process with Ray is not forked
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    me = psutil.Process()
    (forker,) = [process for process in me.children() if process.cmdline() == me.cmdline()]
    while len(waiting := [process.pid for process in forker.children()]) < 2:
        time.sleep(0.05)
    group = ray.util.placement_group([{"CPU": ray.cluster_resources()["CPU"]}])  # as a training reserves all there are
    group.wait()
    time.sleep(2.5)  # no CPU is free: Ray itself ends idle workers after a second
    place = PlacementGroupSchedulingStrategy(group)
    known = ray.get(ray.remote(num_cpus=1)(modules_of_task).options(scheduling_strategy=place).remote())
    processes = [process.pid for process in me.children(recursive=True)]
    print(json.dumps([known, waiting, forker.pid, processes]), flush=True)
    os.kill(me.pid, signal.SIGKILL)
"""


def test_workers_are_forks_that_wait_for_their_task_and_nothing_is_left_of_a_driver_that_is_killed() -> None:
    """In a process of its own: this one has loaded Ray, and has threads."""
    root = Path(__file__).parents[3]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    with subprocess.Popen([sys.executable, "-c", FORKS], cwd=root, env=environment, stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        line = driver.stdout.readline()
    (worker, parent, imported, mode), waiting, forker, processes = json.loads(line)
    assert (imported, mode) == (True, "token")
    assert worker in waiting and parent == forker
    there = [psutil.Process(pid) for pid in processes if psutil.pid_exists(pid)]
    _, alive = psutil.wait_procs(there, timeout=30)
    assert alive == []
