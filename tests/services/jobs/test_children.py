"""The processes beside the service, with real ones: what they started themselves ends with them."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from dragoman.model.ports import free_ports
from dragoman.services.jobs.up import children
from dragoman.services.jobs.up.children import Child, Children, end_left_behind
from dragoman.services.jobs.up.guard import marked
from dragoman.services.jobs.up.secret_files import close_to_others
from tests.services.jobs.processes import REPOSITORY

# A program whose own child stays when the program is killed, as MLflow's.
PROGRAM = """
import subprocess, sys, time
sys.argv[1:] or subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
time.sleep(600)
"""
UP = f"""
import sys, time
from pathlib import Path
from dragoman.services.jobs.up import children
from dragoman.services.jobs.up.children import Child, Children

folder = Path(sys.argv[1])
children = Children(folder / "children.json")
children.start(Child("one", [sys.executable, "-c", {PROGRAM!r}], {{}}, folder, folder / "log"))
print(children.mark, children.folder, flush=True)
time.sleep(600)
"""


def wait_for(mark: str, count: int) -> list[psutil.Process]:
    deadline = time.monotonic() + 60
    while len(found := marked(mark)) != count:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Children]:
    """The children of an `up`, none yet; they leave nothing at its end."""
    children = Children(tmp_path / "children.json")
    yield children
    children.stop()
    assert marked(children.mark) == []
    assert not children.folder.exists() and not children.record.exists()


def child_of(folder: Path, program: str, *more: Callable[[], None]) -> Child:
    return Child("one", [sys.executable, "-c", program], dict(os.environ), folder, folder / "log", *more)


def test_a_program_that_is_killed_is_started_again_without_what_it_left(tmp_path: Path, up: Children) -> None:
    child = child_of(tmp_path, PROGRAM)
    up.start(child)
    before = wait_for(up.mark, 2)
    assert child.process is not None
    child.process.kill()
    psutil.wait_procs(before, timeout=60)
    assert not any(one.is_running() for one in before)
    wait_for(up.mark, 2)


def test_a_program_gets_another_command_also_where_the_one_before_does_not_end_in_order(
    tmp_path: Path, up: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.services.jobs.up.guard.TERM_TIMEOUT", 0.5)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    log = tmp_path / "log"
    up.start(child_of(tmp_path, deaf))
    wait_until(lambda: log.read_text() == "1\n")
    up.replace(child_of(tmp_path, "print(2, flush=True); import time; time.sleep(600)"))
    wait_until(lambda: "2" in log.read_text())
    assert log.read_text().split() == ["1", "2"] and len(marked(up.mark)) == 1


def test_a_program_without_work_ends_with_what_it_started_and_comes_back_when_there_is_some(
    tmp_path: Path, up: Children
) -> None:
    up.start(child_of(tmp_path, PROGRAM))
    before = wait_for(up.mark, 2)
    up.rest("one", True)
    wait_for(up.mark, 0)
    assert up.states({"one": 1}) == {"one": "resting"}
    up.rest("one", False)
    assert not {*before} & {*wait_for(up.mark, 2)}
    assert up.states({"one": 1}) == {"one": "starting"}


def test_a_program_that_cannot_be_started_again_at_once_is_started_later(tmp_path: Path, up: Children) -> None:
    turns = iter(range(10))

    def prepare() -> None:
        if next(turns) == 1:
            raise OSError("no memory")

    up.start(child_of(tmp_path, "print('begun', flush=True); import time; time.sleep(600)", prepare))
    (first,) = wait_for(up.mark, 1)
    wait_until(lambda: (tmp_path / "log").read_text().split() == ["begun"])
    first.kill()
    wait_until(lambda: (tmp_path / "log").read_text().split() == ["begun"] * 2)


def test_what_a_killed_service_leaves_is_ended_by_its_guard(tmp_path: Path) -> None:
    with _up(tmp_path) as up:
        mark, folder = _said(up)
        wait_for(mark, 2)
        up.kill()
    wait_for(mark, 0)
    wait_until(lambda: not folder.exists())


def test_what_a_killed_service_and_its_guard_leave_is_ended_by_the_next_service(tmp_path: Path) -> None:
    with _up(tmp_path) as up:
        mark, folder = _said(up)
        found = wait_for(mark, 2)
        (guard,) = [
            one for one in psutil.Process(up.pid).children() if "dragoman.services.jobs.up.guard" in one.cmdline()
        ]
        guard.kill()
        up.kill()
    assert len(marked(mark)) == 2 and folder.exists()
    assert end_left_behind(tmp_path / "children.json") == 2
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in found)
    assert not folder.exists() and end_left_behind(tmp_path / "children.json") == 0


def test_files_of_an_earlier_version_are_closed_to_others_and_links_are_left_alone(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (home / "runs").mkdir(parents=True)
    for path in (home / "runs" / "log", elsewhere):
        path.write_text("")
        path.chmod(0o664)
    (home / "link").symlink_to(elsewhere)
    close_to_others(home)
    modes = [path.stat().st_mode & 0o777 for path in (home, home / "runs", home / "runs" / "log", elsewhere)]
    assert modes == [0o700, 0o700, 0o600, 0o664]


def _up(folder: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", UP, str(folder)]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)


def _said(up: "subprocess.Popen[str]") -> tuple[str, Path]:
    assert up.stdout is not None
    mark, folder = up.stdout.readline().split()
    return mark, Path(folder)


def test_the_last_line_of_a_log_is_of_the_last_start(tmp_path: Path) -> None:
    child = Child("MLflow", [], {}, tmp_path, tmp_path / "mlflow.log")
    assert children.last_line(child) == ""
    child.log.write_text("an older line\n")
    child.logged = child.log.stat().st_size
    assert children.last_line(child) == ""
    with child.log.open("a") as log:
        log.write("starts\n\n table x already exists\n\n")
    assert children.last_line(child) == "table x already exists"


def test_each_child_says_whether_it_starts_is_ready_or_has_trouble(tmp_path: Path, up: Children) -> None:
    (port,) = free_ports(1)
    child = child_of(tmp_path, "import time; time.sleep(600)")
    up.start(child)
    assert up.states({"one": port}) == {"one": "starting"}
    with socket.create_server(("127.0.0.1", port)):
        assert up.states({"one": port}) == {"one": "ready"}
        assert child.process is not None
        child.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: up.states({"one": port}) == {"one": "stopped"})
        child.process.send_signal(signal.SIGCONT)
    child.last = "no port is free"  # of the start before
    assert up.states({"one": port}) == {"one": "trouble: it ended: no port is free"}
