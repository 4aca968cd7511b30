"""The executor for Ray: what a head refuses, and one round against a real head with token authentication."""

import contextlib
import dataclasses
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import psutil
import pytest

from dragoman.model import landlock
from dragoman.model.errors import ServiceError, UserError
from dragoman.model.ports import free_ports
from dragoman.services.jobs import executor as services_executor
from dragoman.services.jobs.executor import Head, RayExecutor, Start
from tests.pipelines.processes import finish, start_verb, steps
from tests.pipelines.test_train import SETTINGS

REPOSITORY = Path(__file__).resolve().parents[3]


def test_a_missing_address_or_token_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UserError, match="there is no token"), Head("http://127.0.0.1:8265").talking():
        pass
    unknown = Head("http://127.0.0.1:8265", token_file=str(tmp_path / "none"))
    with pytest.raises(UserError, match=r"service\.token_file: .* is not a file"), unknown.talking():
        pass


def answer_by(monkeypatch: pytest.MonkeyPatch, answer: Callable[[httpx.Request], httpx.Response]) -> None:
    """Lets `answer` be every head."""

    def client(**settings: Any) -> httpx.Client:
        return httpx.Client(**settings, transport=httpx.MockTransport(answer))

    monkeypatch.setattr(services_executor, "httpx", SimpleNamespace(**{**vars(httpx), "Client": client}))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((500, "Traceback\nRuntimeError: No available agent to submit job"), "no agent of its nodes answers"),
        ((401, "no token"), "service.auth=disabled: the cluster at http://127.0.0.1:9 refuses us (no token)"),
        ((500, "Traceback\nValueError: it is\nodd"), "answers 500: Traceback ValueError: it is odd"),
    ],
)
def test_a_head_that_refuses_is_named(
    answer: tuple[int, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_by(monkeypatch, lambda _: httpx.Response(answer[0], text=answer[1]))
    here = executor(Head("http://127.0.0.1:9", "disabled"), tmp_path)
    for ask in (lambda: here.submit(START), lambda: here.observe([START]), here.capacity, here.incarnation):
        with pytest.raises(ServiceError, match=re.escape(message)):
            ask()


def test_another_program_at_the_address_is_no_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_by(monkeypatch, lambda _: httpx.Response(200, text="<html>"))
    here = executor(Head("http://127.0.0.1:9", "disabled"), tmp_path)
    for ask in (lambda: here.observe([START]), here.incarnation):
        with pytest.raises(ServiceError, match="has gone or failed"):
            ask()


def test_a_job_that_was_submitted_before_is_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = "ValueError: Job with submission_id check-a1 already exists. Please use a different submission_id.\n."
    answer_by(monkeypatch, lambda _: httpx.Response(500, text=f"{'Traceback ' * 90}{before}"))
    executor(Head("http://127.0.0.1:9", "disabled"), tmp_path).submit(START)
    answer_by(monkeypatch, lambda _: httpx.Response(404, text="no such page"))
    with pytest.raises(ServiceError, match="answers 404: no such page"):
        executor(Head("http://127.0.0.1:9", "disabled"), tmp_path).submit(START)


def test_a_head_that_stands_still_or_has_gone_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services_executor, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connects, and never answers
        here = executor(Head(f"http://127.0.0.1:{silent.getsockname()[1]}", "disabled"), tmp_path)
        for ask in (lambda: here.submit(START), lambda: here.observe([START]), here.capacity, here.incarnation):
            with pytest.raises(ServiceError, match=r"has gone or failed \(timed out\)"):
                ask()
    with pytest.raises(ServiceError, match=r"has gone or failed \(.*Connection refused\)"):
        here.observe([START])


def executor(head: Head, home: Path) -> RayExecutor:
    return RayExecutor(head, home, 20, sys.executable, {"PYTHONPATH": str(REPOSITORY)})


START = Start("check", 1, "doctor", (), "anna", 0, 1, 1.0, 0.0, False)


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """`ray start --head` on loopback, one CPU, with a token; ended with every process that it started.

    Jobs find `DRAGOMAN_HOME` in its environment: the folder of its token.
    """
    folder = tmp_path_factory.mktemp("head")
    (folder / "token").write_text(secrets.token_hex(16))
    dashboard, client = free_ports(2)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")} | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
        "RAY_USAGE_STATS_ENABLED": "0",
        "DRAGOMAN_HOME": str(folder),
        "PYTHONPATH": str(REPOSITORY),
    }
    process = subprocess.Popen(
        [
            *(
                sys.executable,
                "-m",
                "ray.scripts.scripts",
                "start",
                "--head",
                "--block",
                "--num-cpus=1",
                "--num-gpus=0",
            ),
            *("--port=0", "--node-ip-address=127.0.0.1", "--object-store-memory=80000000"),
            *("--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}", "--dashboard-agent-listen-port=0"),
            *(f"--ray-client-server-port={client}", "--min-worker-port=0", "--max-worker-port=0"),
            # Ray's sockets lie below its folder and may not have long names.
            *("--metrics-export-port=0", f"--temp-dir=/tmp/ray-{os.getpid()}", "--disable-usage-stats"),
        ],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_it_answers(process, dashboard)
        yield Head(f"http://127.0.0.1:{dashboard}", token_file=str(folder / "token"))
    finally:
        end_tree(process, f"/tmp/ray-{os.getpid()}")


def wait_until_it_answers(process: "subprocess.Popen[bytes]", port: int) -> None:
    for _ in range(1800):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert process.poll() is None, "ray start ended by itself"
        time.sleep(0.1)
    raise AssertionError("the head's dashboard does not answer")


def end_tree(process: "subprocess.Popen[bytes]", folder: str) -> None:
    """The processes of this head only: they all name its folder."""
    import shutil

    family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.terminate()
    process.wait(60)
    _gone, left = psutil.wait_procs(family, timeout=5)
    for one in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.long
def test_a_job_runs_on_a_real_head_with_token_authentication(
    head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "RAY_API_SERVER_ADDRESS"):
        monkeypatch.setenv(name, "")  # `nodes` sets them for this process
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    here = executor(head, tmp_path)
    wait(lambda: here.capacity().nodes)  # the dashboard answers before the node has joined
    (tmp_path / "other").write_text("f" * 32)
    with pytest.raises(ServiceError, match=r"service\.auth=token: the cluster at .* refuses us"):
        executor(Head(head.address, token_file=str(tmp_path / "other")), tmp_path).capacity()
    assert here.incarnation().startswith("session_")
    assert [node.cpus for node in here.capacity().nodes] == [0.0]  # the head keeps its one CPU for starting jobs
    assert here.observe([START])[START.id].state == "absent"
    wait(lambda: here.submit(START) is None)
    here.submit(START)  # again, after a crash: nothing changes
    wait(lambda: here.observe([START])[START.id].state == "ended")
    found = here.observe([START])[START.id]
    assert found.code in (0, 1), found  # what the doctor finds is this machine's
    assert b"cores" in here.logs(START, 0, 100_000)


LOOK = """
import sys
todo = {paths}

def look(event, values):
    if event == "open" and "services/__pycache__/cli." in str(values[0]):  # the verb begins
        while todo:
            path = todo.pop(0)
            try:
                print("LOOK", open(path).read())
            except OSError as problem:
                print("LOOK", type(problem).__name__)

sys.addaudithook(look)
"""


@pytest.mark.long
@pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock")
def test_a_job_on_a_real_head_opens_no_file_of_another_owner(head: Head, tmp_path: Path) -> None:
    """Neither by its words, nor by code of its own in its process."""
    home = tmp_path / "home"
    theirs, mine = (home / "runs" / name for name in ("theirs", "mine"))
    for run in (theirs, mine):
        run.mkdir(parents=True)
        (run / "config.yaml").write_text(f"of {run.name}")
    paths = [str(run / "config.yaml") for run in (mine, theirs)] + [head.token_file]
    (tmp_path / "sitecustomize.py").write_text(LOOK.format(paths=paths))
    grant = json.dumps({"roots": [str(home)], "secrets": [head.token_file], "read": [], "write": [str(mine)]})
    path = f"{tmp_path}:{REPOSITORY}"
    here = RayExecutor(head, home, 20, sys.executable, {"PYTHONPATH": path, "DRAGOMAN_HOME": str(home)})
    doctor = dataclasses.replace(START, job="looks", grant=grant)
    named = dataclasses.replace(
        doctor, job="named", verb="shard", words=("corpus=tsv", f"corpus.train.file={paths[1]}")
    )
    for start in (doctor, named):
        wait(lambda start=start: here.submit(start) is None)  # type: ignore[misc]
        wait(lambda start=start: here.observe([start])[start.id].state == "ended")  # type: ignore[misc]
    looked = re.findall("LOOK (.*)", here.logs(doctor, 0, 100_000).decode())
    assert looked == ["of mine", "PermissionError", "PermissionError"]
    assert here.observe([named])[named.id].code == 2
    assert b"leads elsewhere than when the job was planned" in here.logs(named, 0, 100_000)


def wait(until: Callable[[], object]) -> None:
    """Asks again as the service does: a head that starts on a busy machine may not answer everything yet."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        with contextlib.suppress(ServiceError):
            if until():
                return
        time.sleep(0.3)
    raise AssertionError("the head does not come to it")


@pytest.mark.long
def test_rays_own_client_submits_a_training(head: Head) -> None:
    """As docs/ray-cluster.md shows it for a cluster without our service."""
    home = Path(head.token_file).parent
    words = [*(word for word in SETTINGS if not word.startswith("train.")), "train.precision=fp32"]
    words += ["train.max_steps=2", "train.average_last=1", "evaluate.sentences=2"]
    finish(start_verb(home, "shard", *words, "cluster.backend=local"))
    command = [sys.executable, "-m", "dragoman", "train", *words, "name=by-ray"]
    command += ["cluster.workers=1", "cluster.address=auto"]
    done = subprocess.run(
        [sys.executable, "-m", "ray.scripts.scripts", "job", "submit", f"--address={head.address}", "--", *command],
        env=os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": head.token_file},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "connecting to Ray at auto" in done.stdout, "followed until the job's end"
    assert [line["step"] for line in steps(home / "runs" / "by-ray")] == [1, 2]
