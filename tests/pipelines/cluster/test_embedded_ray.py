"""An embedded Ray is out of reach: of other machines, of other users, and of a cluster beside it."""

import json
import os
import signal
import stat
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import psutil
import pytest

from dragoman.model.errors import UserError
from dragoman.pipelines.cluster import embedded_ray
from dragoman.pipelines.settings import ClusterConfig

ROOT = Path(__file__).parents[3]
AGENT_PORT = 52365  # of a cluster that somebody starts with `ray start`
USERS = {  # the user's cluster, which is not meant
    "RAY_AUTH_MODE": "disabled",
    "RAY_AUTH_TOKEN": "the user's",
    "RAY_ADDRESS": "192.0.2.1:6379",
}
PLAIN = """
import contextlib, json, os, signal, stat, sys
from pathlib import Path
import psutil
from dragoman.pipelines.cluster import embedded_ray, map
from dragoman.pipelines.settings import ClusterConfig

def environment_of_task(_):
    return {name: value for name, value in os.environ.items() if name.startswith("RAY_AUTH")}

begun = embedded_ray.begin_ray(ClusterConfig()) if sys.argv[1] == "begun" else contextlib.nullcontext()
with begun:
    is_begun = embedded_ray.is_begun()
    with map.connect_ray(ClusterConfig()):
        import ray

        (known,) = map.map_tasks(environment_of_task, [0], ClusterConfig())
        me = psutil.Process()
        family = me.children(recursive=True)
        places = [
            [connection.laddr.ip, connection.laddr.port]
            for process in (me, *family)
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        token = Path(known["RAY_AUTH_TOKEN_PATH"])
        found = {
            "begun": [is_begun, embedded_ray.is_begun()],
            "places": places,
            "known": known,
            "mode": stat.S_IMODE(token.stat().st_mode),
            "token": token.read_text(),
            "processes": [process.pid for process in family],
        }
        if sys.argv[1] == "killed":
            print(json.dumps(found), flush=True)
            os.kill(me.pid, signal.SIGKILL)
found["connected"] = ray.is_initialized()
found["afterwards"] = environment_of_task(0)
with embedded_ray.begin_ray(ClusterConfig()):  # a command that is refused asks for none
    pass
print(json.dumps(found))
"""


def outcome(how: str, home: Path) -> dict[str, Any]:
    """Returns what a process finds that starts an embedded Ray; `how`: plain, begun, killed. This one may have Ray."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    (home / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, how],
        cwd=ROOT,
        env={**variables, **USERS, "HOME": str(home), "TMPDIR": str(home / "tmp")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == (-signal.SIGKILL if how == "killed" else 0), done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    there = [psutil.Process(pid) for pid in found["processes"] if psutil.pid_exists(pid)]
    _, alive = psutil.wait_procs(there, timeout=40)
    assert alive == []
    return found


@pytest.mark.parametrize("how", ["plain", "begun"])
@pytest.mark.long
def test_an_embedded_ray_listens_on_loopback_at_free_ports_with_a_token_of_its_own(how: str, tmp_path: Path) -> None:
    found = outcome(how, tmp_path)
    assert found["begun"] == [how == "begun", False]
    assert len(found["places"]) > 5
    assert {ip.removeprefix("::ffff:") for ip, _ in found["places"]} == {"127.0.0.1"}
    assert AGENT_PORT not in {port for _, port in found["places"]}
    token = Path(found["known"].pop("RAY_AUTH_TOKEN_PATH"))
    assert found["known"] == {"RAY_AUTH_MODE": "token"}
    assert (found["mode"], len(found["token"])) == (stat.S_IRUSR | stat.S_IWUSR, 64)
    assert not found["connected"]
    assert found["afterwards"] == {name: USERS[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}
    assert not token.exists() and not (tmp_path / ".ray").exists()
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.long
def test_nothing_of_an_embedded_ray_is_left_of_a_command_that_is_killed(tmp_path: Path) -> None:
    outcome("killed", tmp_path)
    left = [path.name for path in (tmp_path / "tmp").iterdir()]
    assert [name for name in left if not name.startswith("dragoman-ray-token-")] == []


def test_a_ray_that_was_imported_with_other_settings_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", types.ModuleType("ray"))
    monkeypatch.setattr(embedded_ray, "_imported_as_needed", False)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    with pytest.raises(UserError, match="RAY_AUTH_MODE=token"), embedded_ray.begin_ray(ClusterConfig()):
        pass


def test_more_workers_than_cpus_are_refused_before_ray_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *_: pytest.fail("a process was started"))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(embedded_ray, "_imported_as_needed", True)  # other tests import Ray too
    message = r"cluster.workers=8: needs 8 CPUs, this machine has 2\. Ask for fewer workers"
    with pytest.raises(UserError, match=message), embedded_ray.start_ray(ClusterConfig(workers=8)):
        pass


@pytest.mark.parametrize(("load", "seconds"), [(0.1, 60.0), (2.0, 60.0), (6.0, 180.0), (90.0, 300.0)])
def test_a_busy_machine_gives_ray_more_time(monkeypatch: pytest.MonkeyPatch, load: float, seconds: float) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert embedded_ray.patience(60.0) == seconds


def test_a_ray_that_does_not_start_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_ray, "patience", lambda _: 0.0)  # the head's first look comes too late
    monkeypatch.setattr(embedded_ray, "_imported_as_needed", True)  # other tests import Ray too
    message = r"Ray did not start, .*cluster\.start_timeout=SECONDS"
    with pytest.raises(embedded_ray.StartError, match=message), embedded_ray.start_ray(ClusterConfig()):
        pass
