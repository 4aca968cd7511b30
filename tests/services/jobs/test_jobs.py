"""Jobs: what is handed over, what is refused, and one round against a real head with token authentication."""

import contextlib
import getpass
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from model.errors import UserError
from model.ports import free_ports
from services.jobs import jobs
from services.jobs.executors import ray_client as job_client
from services.jobs.executors.ray_client import JobsConfig, connect

REPOSITORY = Path(__file__).resolve().parents[3]


def test_the_job_runs_the_same_words_with_the_clusters_own_address() -> None:
    words = ["model=rnn", "name=a b", "cluster.address=http://head:8265", "jobs.show=3", "--cfg", "job"]
    assert jobs.command(JobsConfig(python="py"), "train", words) == (
        "py -m services.cli train model=rnn 'name=a b' --cfg job cluster.address=auto"
    )
    assert jobs.command(JobsConfig(), "evaluate", ["name=x"]).endswith("evaluate name=x")
    assert "address" not in jobs.command(JobsConfig(), "train", ["cluster.backend=local"])


def test_ids_begin_with_the_runs_name_and_differ() -> None:
    first, second = (jobs.submission_id("multi30k en/de", "train") for _ in range(2))
    assert first.startswith("multi30k-en-de-train-")
    assert first != second


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"workers": 3}, ["cluster.workers=3", "3 CPUs", "has 2"]),
        ({"workers": 1, "device": "cuda"}, ["1 GPUs", "has 0"]),
        ({"workers": 2, "cpus_per_worker": 1.5}, ["3 CPUs"]),
    ],
)
def test_more_than_the_cluster_has_is_refused(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        jobs.check_capacity(JobsConfig(**changes), {"CPU": 2.0, "memory": 1e9})
    assert all(word in str(caught.value) for word in words)
    jobs.check_capacity(JobsConfig(workers=2), {"CPU": 2.0})


def test_a_folder_too_large_to_send_is_refused_and_excluded_parts_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "LARGEST_UPLOAD", 1000)
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts" / "large").write_bytes(b"x" * 5000)
    (tmp_path / "code.py").write_bytes(b"x" * 900)
    jobs.check_working_dir(tmp_path, ["artifacts"])
    with pytest.raises(UserError, match=r"jobs.working_dir: .* to send"):
        jobs.check_working_dir(tmp_path, [])
    with pytest.raises(UserError, match="is not a folder"):
        jobs.check_working_dir(tmp_path / "none", [])


def test_a_missing_address_or_token_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"jobs\.address: no cluster is named"):
        connect(JobsConfig())
    with pytest.raises(UserError, match="there is no token"):
        connect(JobsConfig(address="http://127.0.0.1:8265"))
    with pytest.raises(UserError, match=r"jobs\.token_file: .* is not a file"):
        connect(JobsConfig(address="http://127.0.0.1:8265", token_file=str(tmp_path / "none")))


@pytest.mark.parametrize("argv", [["submit"], ["submit", "name=x"], ["submit", "jobs"], ["logs"], ["stop", "name=x"]])
def test_a_verb_or_a_job_that_is_left_out_is_the_users_mistake(argv: list[str]) -> None:
    with pytest.raises(UserError):
        jobs.main(argv)


@pytest.mark.parametrize(
    ("home", "words", "message"),
    [
        ("here", ["train"], "no shards"),
        ("elsewhere", ["train"], "jobs.address: no cluster is named"),  # shards may be where only the nodes see them
        ("elsewhere", ["train", "cluster.workers=8", "loader.lanes=2"], "loader.lanes=2: 8 ranks"),
        ("elsewhere", ["train", "train.max_steps=soon"], "train.max_steps: expected a whole number"),
        ("elsewhere", ["compare", "models=[rnnenc,rnnlm_lstm]"], "'rnnlm_lstm' does not translate"),
        ("elsewhere", ["shard", "corpus.on_error=ignore"], "corpus.on_error: 'ignore' is not known"),
    ],
)
def test_a_job_is_refused_for_what_its_verb_would_refuse_at_once(
    home: str,
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / home))
    assert jobs.main(["submit", *words]) == 2
    assert message in capsys.readouterr().err


class GoneHead:
    """A client whose head has gone, as Ray's own tells it."""

    def get_job_info(self, _job: str) -> Any:
        return None

    def submit_job(self, **_: Any) -> str:
        raise RuntimeError("Request failed with status code 500: No available agent to submit job, please try again.")

    async def tail_job_logs(self, _job: str) -> AsyncIterator[str]:
        yield "step 1\n"
        raise RuntimeError("WebSocket connection closed unexpectedly with close code 1006")

    def list_jobs(self) -> list[Any]:
        raise ConnectionRefusedError(111, "Connection refused")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["submit", "doctor"], "accepts no jobs: no agent of its nodes answers"),
        (["logs", "job-1", "-f"], "has gone or failed (WebSocket connection closed unexpectedly"),
        (["jobs"], "has gone or failed ([Errno 111] Connection refused)"),
    ],
)
def test_a_head_that_goes_or_takes_no_jobs_is_named(
    words: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(job_client, "connect", lambda _: GoneHead())
    assert jobs.main([*words, "jobs.address=http://127.0.0.1:9"]) == 1
    printed = capsys.readouterr()
    assert message in printed.err
    assert "Traceback" not in printed.err


def test_durations_are_told_in_two_units() -> None:
    assert [jobs.duration(1000 * seconds) for seconds in (0, 59, 250, 7500)] == [
        "0 s",
        "59 s",
        "4 min 10 s",
        "2 h 5 min",
    ]


@dataclass
class Head:
    """A running head node: its dashboard, and the environment of somebody who may use it."""

    address: str
    environment: dict[str, str]

    def dragoman(self, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "services.cli", *words, f"jobs.address={self.address}"],
            cwd=REPOSITORY,
            env=self.environment | changes,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """`ray start --head` on loopback, one CPU, with a token; ended with every process that it started."""
    folder = tmp_path_factory.mktemp("ray")
    dashboard, client = free_ports(2)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")} | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(16),
        "RAY_USAGE_STATS_ENABLED": "0",
        "DRAGOMAN_HOME": str(folder / "artifacts"),
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
        address = f"http://127.0.0.1:{dashboard}"
        wait_until_it_answers(process, dashboard)
        yield Head(address, environment)
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


def test_a_job_runs_on_a_real_head_with_token_authentication(head: Head) -> None:
    python = f"jobs.python={sys.executable}"

    refused = head.dragoman("submit", "train", "cluster.workers=8")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "cluster.workers=8: needs 8 CPUs, the cluster at" in refused.stderr

    stranger = head.dragoman("jobs", RAY_AUTH_TOKEN="f" * 32)
    assert stranger.returncode == 2
    assert "jobs.auth=token" in stranger.stderr
    assert head.environment["RAY_AUTH_TOKEN"] not in stranger.stderr

    submitted = head.dragoman("submit", "doctor", "name=check", python, LOGNAME="somebody")
    assert submitted.returncode == 0, submitted.stderr
    job = submitted.stdout.strip()
    assert job.startswith("check-doctor-")

    followed = head.dragoman("logs", job, "-f")
    assert followed.returncode == 0, followed.stderr
    assert "cores" in followed.stdout

    endless = head.dragoman("submit", "serve", "serve.wait=true", "serve.port=0", "name=endless", python).stdout.strip()
    stopped = head.dragoman("stop", endless)
    assert (stopped.returncode, stopped.stdout.strip()) == (0, f"{endless}: STOPPED")

    table = head.dragoman("jobs").stdout
    assert [line.split()[1:4] for line in table.splitlines()] == [
        ["STATUS", "VERB", "OWNER"],
        ["STOPPED", "serve", getpass.getuser()],
        ["SUCCEEDED", "doctor", "somebody"],
    ]

    unknown = head.dragoman("logs", job[:-1])
    assert unknown.returncode == 2
    assert f"Did you mean {job}?" in unknown.stderr
