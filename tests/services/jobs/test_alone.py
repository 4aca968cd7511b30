"""`dragoman up`, whole, on one machine: its sockets, who may read its files, and what is left when it is killed."""

import contextlib
import json
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import httpx
import psutil
import pytest

from dragoman.services.jobs.options import this_user
from tests.services.jobs.team import COMMAND, PATIENCE, REPOSITORY, environment, wait

pytestmark = pytest.mark.long
CORPUS = ["corpus=everyday", "corpus.pairs=4000", "pair=en-de", "tokenizer.vocabulary=1000"]
TRAINING = [
    *CORPUS,
    *("model=rnnsearch_additive", "model.width=64", "model.embedding=64", "model.encoder_width=64"),
    *("loader.batch_tokens=1024", "loader.lanes=2", "train.max_steps=1000000", "train.checkpoint_every=40"),
    *("train.evaluate_every=1000000", "tracking.offline=true", "cluster.device=cpu"),
]
# A method of each service of Ray's, which answers without a token where none is asked for.
METHODS = (
    "ray.rpc.NodeInfoGcsService/GetAllNodeInfo",
    "ray.rpc.NodeManagerService/GetNodeStats",
    "ray.rpc.ObjectManagerService/FreeObjects",
    "ray.rpc.CoreWorkerService/NumPendingTasks",
    "ray.rpc.RayletDriver/ClusterInfo",
    "ray.rpc.ReporterService/ReportOCMetrics",
)
NONE_OF_THEM = "no such methods"
PATHS = ("/api/jobs/", "/api/job_agent/jobs/", "/get_or_create_runtime_env")


@dataclass
class Alone:
    """An `up`, and what was seen of it."""

    home: Path
    words: list[str]
    environment: dict[str, str]
    process: "subprocess.Popen[bytes]"
    listening: dict[int, tuple[str, str]] = field(default_factory=dict)  # port -> address, program
    unguarded: dict[int, object] = field(default_factory=dict)

    def dragoman(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        """The last line that it prints."""
        how = {"cwd": REPOSITORY, "env": self.environment, "timeout": PATIENCE}
        done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False, **how)  # type: ignore[call-overload]
        assert done.returncode in codes, done.stderr
        return (done.stdout.splitlines() or [""])[-1]

    def look(self) -> None:
        """What the processes listen at now."""
        for process in family(self.process.pid):
            with contextlib.suppress(psutil.Error):
                for one in process.net_connections("inet"):
                    if one.status == psutil.CONN_LISTEN:
                        self.listening[one.laddr.port] = one.laddr.ip, " ".join(process.cmdline())[:200]


def family(pid: int) -> list[psutil.Process]:
    return [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]


def start(home: Path, words: list[str], variables: dict[str, str]) -> "subprocess.Popen[bytes]":
    """An `up` that is ready."""
    said = home.with_name("said")
    with said.open("wb") as file:
        command = [*COMMAND, "up", *words]
        up = subprocess.Popen(command, cwd=REPOSITORY, env=variables, stdout=file, stderr=subprocess.STDOUT)
    try:
        wait(lambda: "ready" in said.read_text() or up.poll() is not None, said.read_text)
        assert up.poll() is None, said.read_text()
    except AssertionError:
        up.kill()
        raise
    return up


def consecutive_ports(count: int) -> int:
    """The first of so many free ones."""
    while True:
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError, OverflowError):
            first = stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            for port in range(first + 1, first + count):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return int(first)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    """One that has trained with two workers, in a home that an earlier version left open to everybody."""
    home = tmp_path_factory.mktemp("alone") / "home"
    (home / "jobs" / "old").mkdir(parents=True)
    (home / "jobs" / "old" / "a1.log").write_text("secret")
    for path, mode in ((home, 0o755), (home / "jobs" / "old", 0o777), (home / "jobs" / "old" / "a1.log", 0o644)):
        path.chmod(mode)
    variables = environment(home, OMP_NUM_THREADS="1")
    words = ["service.port=0", f"service.ports={consecutive_ports(3)}", "service.cpus=2"]
    one = Alone(home, words, variables, start(home, words, variables))
    try:
        _wait_for_ray(home)
        one.look()
        ports = {int(place.rpartition(":")[2]) for place in json.loads(address(home).read_text()).values()}
        dashboard = int(json.loads(address(home).read_text())["ray"].rpartition(":")[2])
        one.unguarded = {port: ask(port) for port in one.listening if port == dashboard or port not in ports}
        one.dragoman("logs", one.dragoman("submit", "shard", *CORPUS, "cluster.workers=1"), "-f")
        job = one.dragoman("submit", "train", *TRAINING, "cluster.workers=2", "name=two")
        wait((home / "runs" / this_user() / "two" / "steps.jsonl").exists, lambda: one.dragoman("job", job))
        one.look()
        one.dragoman("stop", job)
        one.dragoman("logs", job, "-f", codes=(0, 1))  # until it has ended
        yield one
    finally:
        left = [] if one.process.poll() is not None else family(one.process.pid)
        if left:
            one.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.process.wait(60)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def address(home: Path) -> Path:
    return home / "service" / "address.json"


def _wait_for_ray(home: Path) -> None:
    """Until the service sees a node: its job server answers before that."""
    service = json.loads(address(home).read_text())["jobs"]
    log = home / "service" / "ray.log"
    wait(lambda: httpx.get(f"{service}/status", timeout=30).json()["nodes"], lambda: log.read_text()[-2000:])


def ask(port: int) -> object:
    """What Ray answers without a token; None: it asks for one."""
    with contextlib.suppress(httpx.HTTPError):
        answers = {path: httpx.post(f"http://127.0.0.1:{port}{path}", timeout=10).status_code for path in PATHS}
        return None if set(answers.values()) <= {401, 403} else answers
    codes = {}
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        for method in METHODS:
            try:
                channel.unary_unary(f"/{method}")(b"", timeout=10)
                codes[method] = "OK"
            except grpc.RpcError as problem:
                codes[method] = problem.code().name
    if set(codes.values()) == {"UNIMPLEMENTED"}:
        return NONE_OF_THEM
    return None if set(codes.values()) <= {"UNAUTHENTICATED", "UNIMPLEMENTED"} else codes


def test_nothing_listens_beyond_the_loopback_interface(alone: Alone) -> None:
    """Service, endpoint, MLflow, Ray, and the workers of a training."""
    assert len(alone.listening) > 10
    assert any("RayTrainWorker" in program for _, program in alone.listening.values())
    beyond = {
        port: place
        for port, place in alone.listening.items()
        if place[0].removeprefix("::ffff:") not in ("127.0.0.1", "::1")
    }
    assert not beyond


def test_every_port_of_ray_asks_for_the_token(alone: Alone) -> None:
    assert len(alone.unguarded) >= 6
    answers = {port: (answer, alone.listening[port]) for port, answer in alone.unguarded.items() if answer}
    assert {port: found for port, found in answers.items() if found[0] != NONE_OF_THEM} == {}
    assert len(answers) <= 1, "one port of the raylet has none of the services that are asked here"


def test_no_other_user_of_the_machine_reads_a_file(alone: Alone) -> None:
    """Of the home, and of Ray's folder."""
    record = json.loads((alone.home / "service" / "children.json").read_text())
    assert stat.S_IMODE(Path(record["folder"]).stat().st_mode) == 0o700
    paths = [alone.home, *alone.home.rglob("*")]
    assert len(paths) > 50
    opened = [path for path in paths if not path.is_symlink() and path.lstat().st_mode & 0o077]
    assert opened == []


def test_nothing_of_a_killed_service_is_left_and_the_next_one_starts(alone: Alone) -> None:
    """Killed: MLflow, whose own child holds the port, and the service at once; so nobody but the guard can do it."""
    folder = Path(json.loads((alone.home / "service" / "children.json").read_text())["folder"])
    assert folder.is_dir()
    everybody = family(alone.process.pid)
    (mlflow,) = [one for one in psutil.Process(alone.process.pid).children() if "mlflow" in one.cmdline()]
    mlflow.kill()
    alone.process.kill()
    alone.process.wait(10)
    _, left = psutil.wait_procs(everybody, timeout=60)
    assert [one for one in left if one.is_running() and one.status() != psutil.STATUS_ZOMBIE] == []
    assert not folder.exists()
    following = start(alone.home, [*alone.words, "service.endpoint=false"], alone.environment)
    following.send_signal(signal.SIGINT)
    assert following.wait(120) == 0
    assert not (alone.home / "service" / "children.json").exists()
