"""A confined process opens what it was granted and nothing else, whatever way it takes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.model import landlock
from dragoman.model.confinement import RAY_FOLDER, VARIABLE

pytestmark = pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock")

# Prints a line for each path: what stands there, or the name of the error.
PROGRAM = """
import os, sys, subprocess, tempfile, threading
from dragoman.model.confinement import Grant, confine, confine_worker, make_folder, read_grant
from pathlib import Path
temporary = sys.argv[1]
if temporary == "worker":
    confine_worker()
    confine_worker()
else:
    confine(read_grant(), temporary)
def look(path):
    try:
        print(open(path).read().strip() if not os.path.isdir(path) else sorted(os.listdir(path)))
    except OSError as problem:
        print(type(problem).__name__)
for path in sys.argv[2:]:
    look(path)
    thread = threading.Thread(target=look, args=(path,)); thread.start(); thread.join()
    if not os.path.isdir(path):
        sys.stdout.flush()
        code = subprocess.run(["cat", path], stderr=subprocess.DEVNULL).returncode
        print("cat", code)
tempfile.NamedTemporaryFile("w").write("x")
for folder in read_grant().record:
    make_folder(Path(folder) / "shard-new")
    (Path(folder) / "shard-new/spool").write_text("kept")
    print((Path(folder) / "shard-new/spool").read_text())
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a secret, another owner's run, and a run of one's own."""
    home = tmp_path / "home"
    for name in ("service/session_key", "jobs/other/a1.log", "runs/theirs/a", "runs/mine/a", "corpora/books.txt"):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {name}\n")
    (home / "runs/mine/link").symlink_to(home / "service/session_key")
    return home


def looked_at(home: Path, temporary: str, paths: list[str], **grant: list[str]) -> list[str]:
    granted = {"roots": [str(home)], "secrets": [], "read": [], "write": [str(home / "runs/mine")], **grant}
    user = home.parent / "user"
    user.mkdir(exist_ok=True)
    folder = str(home.parent) if temporary == "worker" else temporary
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, temporary, *paths],
        env={**os.environ, VARIABLE: json.dumps(granted), "HOME": str(user), "TMPDIR": folder},
        **{"check": True, "capture_output": True, "text": True, "cwd": Path(__file__).resolve().parents[2]},
    )
    return done.stdout.splitlines()


def test_files_that_were_not_granted_cannot_be_opened(home: Path, tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    (tmp_path / "user/.bashrc").write_text("mine alone")
    (tmp_path / "temporary").mkdir()
    paths = [
        *(f"{home}/service/session_key", f"/proc/self/root{home}/service/session_key", f"{home}/runs/mine/link"),
        *(f"{home}/jobs/other/a1.log", f"{home}/runs/theirs/a", f"{home}/corpora/books.txt"),
        f"{tmp_path}/user/.bashrc",
        *(f"{home}/runs/mine/../../service/session_key", f"/proc/{os.getpid()}/root{home}/service/session_key"),
    ]
    told = looked_at(home, str(tmp_path / "temporary"), paths)
    assert told == ["PermissionError", "PermissionError", "cat 1"] * len(paths)


def test_of_rays_folder_beside_the_services_files_its_sessions_are_open_alone(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ray start --temp-dir` names any folder, also one that the home lies in."""
    (tmp_path / "temporary").mkdir()
    for name in ("session_1/sockets/a", "session_1/logs/b", "beside"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"content of {name}")
    monkeypatch.setenv(RAY_FOLDER, f"/tmp/none:{tmp_path}")
    paths = [tmp_path / "session_1/sockets/a", home / "service/session_key", tmp_path / "beside"]
    told = looked_at(home, str(tmp_path / "temporary"), [*map(str, paths), str(tmp_path / "session_1/logs/b")])
    assert told[:2] == ["content of session_1/sockets/a"] * 2
    assert {"content of service/session_key", "content of beside", "content of session_1/logs/b"}.isdisjoint(told)


def test_what_was_granted_can_be_used(home: Path, tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    paths = [str(home / "runs/mine/a"), str(home / "corpora/books.txt"), "/etc/passwd"]
    told = looked_at(home, str(tmp_path / "temporary"), paths, read=[str(home / "corpora/books.txt")])
    assert told[:3] == ["content of runs/mine/a", "content of runs/mine/a", "content of runs/mine/a"]
    assert "content of corpora/books.txt" in told and "PermissionError" not in told


def test_a_secret_inside_of_a_folder_of_the_system_is_left_out(home: Path, tmp_path: Path) -> None:
    """A folder that may be read, and that holds a file of the service."""
    (tmp_path / "temporary").mkdir()
    told = looked_at(home, str(tmp_path / "temporary"), ["/etc/passwd", "/etc/group"], secrets=["/etc/passwd"])
    assert told[0] == "PermissionError"
    assert told[3] != "PermissionError"


def test_a_run_that_is_named_later_is_made_beside_those_of_others(home: Path, tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    (home / "runs/theirs").rename(home / "runs/shard-theirs")
    told = looked_at(
        home, str(tmp_path / "temporary"), [str(home / "runs/shard-theirs/a")], record=[str(home / "runs")]
    )
    assert told == ["PermissionError", "PermissionError", "cat 1", "kept"]
    assert sorted(path.name for path in (home / "runs").iterdir()) == ["mine", "shard-new", "shard-theirs"]


def test_a_worker_is_confined_once_and_leaves_no_folder(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(home / "service/session_key")
    monkeypatch.setenv("DRAGOMAN_JOB", "j1-1")
    monkeypatch.setenv("DRAGOMAN_ATTEMPT", "3")
    stays = ["dragoman-job-j1-1-4-x", "dragoman-job-j1-12-1-x"]
    for name in (*stays, "dragoman-job-j1-1-2-x"):  # the last one is of a killed worker of an earlier attempt
        (tmp_path / name).mkdir()
    assert looked_at(home, "worker", [path]) == ["PermissionError", "PermissionError", "cat 1"]
    assert sorted(one.name for one in tmp_path.glob("dragoman-job-*")) == sorted(stays)
