"""What docker-compose.yml's containers run, as plain processes: the same commands, variables and secrets, with hosts,
folders and ports of this machine."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from dragoman.model.ports import free_ports
from tests.services.jobs.processes import end_trees

REPOSITORY = Path(__file__).resolve().parents[2]
DEPLOY = REPOSITORY / "deploy"
BIN = Path(sys.executable).parent
PATIENCE = 120.0  # seconds; a busy machine takes its time to start a process
COMPOSITION: dict[str, Any] = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text(encoding="utf-8"))
HOSTS = {"postgres": 5432, "s3": 8333, "mlflow": 5000, "ray-head": 8265, "jobs": 8300, "endpoint": 5050}


@dataclass
class Stack:
    """The machine: its ports by service, its folders, and what runs."""

    folder: Path
    ports: dict[str, int] = field(default_factory=lambda: dict(zip(HOSTS, free_ports(len(HOSTS)), strict=True)))
    processes: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)

    @property
    def secrets(self) -> Path:
        return self.folder / "deploy" / "secrets"

    def secret(self, name: str) -> str:
        return (self.secrets / name).read_text(encoding="utf-8").strip()

    def url(self, service: str) -> str:
        return f"http://127.0.0.1:{self.ports[service]}"

    def here(self, text: str) -> str:
        """A word of a command, or a variable's value, with what the containers call their own."""
        text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
        for name, port in HOSTS.items():
            text = re.sub(rf"(?<![\w.-]){name}:{port}\b", f"127.0.0.1:{self.ports[name]}", text)
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{self.ports[name]}")
        text = text.replace("@postgres/", f"@127.0.0.1:{self.ports['postgres']}/")
        return text.replace("/run/secrets", str(self.secrets)).replace("0.0.0.0", "127.0.0.1")

    def environment(self, service: str, **more: str) -> dict[str, str]:
        """Of a container: nothing of ours but where programs and our code are."""
        home = self.folder / service
        (home / ".mlflow").mkdir(parents=True, exist_ok=True)
        for secret in COMPOSITION["services"][service].get("secrets", []):
            if isinstance(secret, dict):
                target = home / Path(secret["target"]).relative_to("/home/dragoman")
                shutil.copy(self.secrets / secret["source"], target)
        theirs = {key: self.here(str(value)) for key, value in COMPOSITION["services"][service]["environment"].items()}
        own = {"HOME": str(home), "DRAGOMAN_HOME": str(home / "data"), "PYTHONPATH": str(REPOSITORY), "LANG": "C.UTF-8"}
        path = f"{self.folder / 'bin'}:{BIN}:{os.environ['PATH']}"
        return {"PATH": path, "TMPDIR": str(self.folder), **own, **theirs, **more}

    def command(self, service: str) -> list[str]:
        return [self.here(word) for word in COMPOSITION["services"][service]["command"]]

    def start(self, service: str, *more: str, **environment: str) -> None:
        """The service's command; `more` settings behind it."""
        with (self.folder / f"{service}.log").open("wb") as log:
            self.processes[service] = subprocess.Popen(
                [*self.command(service), *more],
                env=self.environment(service, **environment),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def log(self, service: str) -> str:
        return (self.folder / f"{service}.log").read_text(encoding="utf-8", errors="replace")[-4000:]

    def wait(self, service: str, path: str, good: Callable[[httpx.Response], bool]) -> httpx.Response:
        """Until the service answers as it should."""
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = httpx.get(f"{self.url(service)}{path}", timeout=10)
                if good(answer):
                    return answer
            process = self.processes.get(service)
            assert process is None or process.poll() is None, self.log(service)
            assert time.monotonic() < deadline, self.log(service)
            time.sleep(0.1)

    def is_healthy(self, service: str) -> bool:
        """What the container's health check says, where the composition has one."""
        words = [self.here(word) for word in COMPOSITION["services"][service]["healthcheck"]["test"]]
        assert words[0] == "CMD"
        return (
            subprocess.run(words[1:], env=self.environment(service), capture_output=True, check=False).returncode == 0
        )


@contextlib.contextmanager
def stack() -> Iterator[Stack]:
    """Everything but Ray, Prometheus and Grafana; skips where PostgreSQL is not installed."""
    folder = Path(tempfile.mkdtemp(prefix="dragoman-stack-"))
    folder.chmod(0o755)
    one = Stack(folder)
    with contextlib.ExitStack() as ends:
        ends.callback(shutil.rmtree, folder, ignore_errors=True)
        (folder / "deploy").mkdir()
        shutil.copy(DEPLOY / "make-secrets.sh", folder / "deploy")
        subprocess.run([folder / "deploy" / "make-secrets.sh"], check=True, stdout=subprocess.DEVNULL)
        (folder / "bin").mkdir()
        for name, source in (("mlflow-server", "mlflow-server.sh"), ("make-bucket", "make-bucket.py")):
            (folder / "bin" / name).symlink_to(DEPLOY / source)  # as the Dockerfile copies them
        ends.callback(_end, one)
        _start_s3(one)
        ends.enter_context(_postgres(one))
        one.start("jobs", "service.port=" + str(one.ports["jobs"]), "service.ports=0")
        subprocess.run(one.command("buckets"), env=one.environment("buckets"), check=True, stdout=subprocess.DEVNULL)
        one.start(
            "mlflow",
            POSTGRES_HOST="127.0.0.1",
            POSTGRES_PORT=str(one.ports["postgres"]),
            MLFLOW_PORT=str(one.ports["mlflow"]),
            MLFLOW_WORKERS="1",
        )
        one.start("endpoint", f"serve.port={one.ports['endpoint']}", "serve.poll=1", "serve.threads=1")
        yield one


def _end(one: Stack) -> None:
    end_trees([process.pid for process in one.processes.values()])
    for process in one.processes.values():
        process.wait(10)


def _start_s3(one: Stack) -> None:
    """moto's server stands for SeaweedFS, which no package brings; it asks for no keys."""
    with (one.folder / "s3.log").open("wb") as log:
        one.processes["s3"] = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(one.ports["s3"])],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


@contextlib.contextmanager
def _postgres(one: Stack) -> Iterator[None]:
    """Debian's, set up as the image does it: a user with its database and password, then our script."""
    places = [Path(found).parent for found in (shutil.which("initdb"),) if found]
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if not places:
        pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
    programs, data, user = places[0].resolve(), one.folder / "pg", []
    data.mkdir()
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        try:
            shutil.chown(data, "postgres")
        except LookupError:
            pytest.skip("PostgreSQL has no user of its own here (Debian: postgresql)")
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    settings = COMPOSITION["services"]["postgres"]["environment"]
    name, port = settings["POSTGRES_USER"], str(one.ports["postgres"])
    password = one.folder / "password"
    shutil.copy(one.here(settings["POSTGRES_PASSWORD_FILE"]), password)
    password.chmod(0o644)

    def run(program: str, *words: str) -> None:
        done = subprocess.run(
            [*user, str(programs / program), *words], capture_output=True, text=True, cwd=data, check=False
        )
        assert done.returncode == 0, done.stderr

    auth = ("--auth-local=scram-sha-256", "--auth-host=scram-sha-256", f"--pwfile={password}")
    run("initdb", "-D", str(data / "db"), "-U", name, *auth, "--no-sync")
    options = f"-k {data} -c listen_addresses=127.0.0.1 -p {port} -c fsync=off"
    with (data / "started").open("w"):
        run("pg_ctl", "-D", str(data / "db"), "-w", "-l", str(data / "log"), "-o", options, "start")
    try:
        asked = {"PGHOST": "127.0.0.1", "PGPORT": port, "PGPASSWORD": password.read_text().strip()}
        environment = one.environment("postgres", **asked)
        run_as = {"env": environment, "capture_output": True, "text": True, "check": False}
        done = subprocess.run(
            ["psql", f"--username={name}", "--dbname=postgres", "-c", f"CREATE DATABASE {settings['POSTGRES_DB']}"],
            **run_as,
        )
        assert done.returncode == 0, done.stderr
        done = subprocess.run([DEPLOY / "postgres" / "ledger.sh"], **run_as)
        assert done.returncode == 0, done.stderr
        yield
    finally:
        run("pg_ctl", "-D", str(data / "db"), "-m", "immediate", "-w", "stop")
