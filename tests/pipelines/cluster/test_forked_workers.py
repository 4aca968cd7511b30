"""A worker that is a fork has what was imported and ends with its asker; Ray starts its own where none is to be had."""

import json
import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pipelines.cluster import worker_program
from pipelines.cluster.forked_workers import import_modules

ROOT = Path(__file__).parents[3]
SERVER = """
import sys
from pathlib import Path
from pipelines.cluster.forked_workers import import_modules, serve_forks
import_modules(["fractions"])
with serve_forks(Path(sys.argv[1])):
    print("served", flush=True)
    sys.stdin.read()
"""
WORKER = """
import os, sys, time
print("fractions" in sys.modules, os.environ.get("COLOUR"), os.getcwd(), os.getpid(), *sys.argv[1:], flush=True)
if sys.argv[1] == "names":
    import ray
    print(*[ray.ObjectRef.from_random().hex() for _ in range(500)])
    sys.exit()
if sys.argv[1] == "wait":
    time.sleep(60)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder with the socket and the worker's program; forks come from a process without pytest's threads."""
    folder = tmp_path_factory.mktemp("forks")
    (folder / "worker.py").write_text(WORKER)
    (folder / "setup_worker.py").write_text("import sys; print('its own', *sys.argv[1:])")
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(folder / "socket")],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "served\n"
        yield folder


def ask(folder: Path, *words: str, place: str = "socket", context: object = None) -> "subprocess.Popen[str]":
    arguments = [str(folder / "worker.py"), *words, "--language=PYTHON"]
    arguments.append(worker_program.CONTEXT + json.dumps(context or {}))
    environment = {**os.environ, worker_program.PLACE: str(folder / place), "COLOUR": "red"}
    program = [sys.executable, str(Path(worker_program.__file__)), *arguments]
    return subprocess.Popen(program, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)


def test_a_worker_has_the_modules_and_the_place_of_its_asker_and_its_exit_code(served: Path) -> None:
    with ask(served, "7", "more", context={"env_vars": {"COLOUR": "blue"}, "py_executable": sys.executable}) as asker:
        out, _ = asker.communicate(timeout=30)
    imported, colour, folder, pid, *words = out.split()
    assert (imported, colour, Path(folder)) == ("True", "blue", served)
    assert words == ["7", "more"]
    assert int(pid) != asker.pid
    assert asker.returncode == 7


def test_no_two_workers_draw_the_same_names_in_ray(served: Path) -> None:
    """Two that start at once store an object of a random name each: where it is the same one, Ray ends a worker."""
    named = []
    for _ in range(2):
        with ask(served, "names") as asker:
            out, _ = asker.communicate(timeout=30)
        named += out.splitlines()[1].split()
    assert len(named) == len(set(named)) == 1000


def test_ray_is_loaded_by_each_worker_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    import_modules(["fractions"])
    monkeypatch.setitem(sys.modules, "ray", types.ModuleType("ray"))
    with pytest.raises(RuntimeError, match="fractions has imported it"):
        import_modules(["fractions"])


@pytest.mark.parametrize("which", ["asker", "worker"])
def test_worker_and_asker_end_together(served: Path, which: str) -> None:
    with ask(served, "wait") as asker:
        assert asker.stdout is not None
        worker = psutil.Process(int(asker.stdout.readline().split()[3]))
        os.kill(asker.pid if which == "asker" else worker.pid, signal.SIGKILL)
        code = asker.wait(30)
    ends = time.monotonic() + 30
    while worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < ends
        time.sleep(0.02)
    assert code == (-signal.SIGKILL if which == "asker" else 128 + signal.SIGKILL)


@pytest.mark.parametrize(
    ("place", "context"),
    [("nothing", None), ("socket", {"py_executable": "/another/python"}), ("socket", {"command_prefix": ["nice"]})],
)
def test_what_cannot_be_forked_is_started_by_rays_own_program(served: Path, place: str, context: object) -> None:
    with ask(served, "7", place=place, context=context) as asker:
        out, _ = asker.communicate(timeout=30)
    assert out.split()[:4] == ["its", "own", str(served / "worker.py"), "7"]


def test_workers_end_with_the_driver(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    driver = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(tmp_path / "socket")],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with driver:
        assert driver.stdout is not None
        driver.stdout.readline()
        with ask(tmp_path, "wait") as asker:
            assert asker.stdout is not None
            worker = psutil.Process(int(asker.stdout.readline().split()[3]))
            driver.kill()
            assert asker.wait(30)
        worker.wait(30)
