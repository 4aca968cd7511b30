"""The composition as containers of podman: docker-compose.yml as it stands, with the stand-ins of Containerfile in the
places of public images, ports of this machine, and secrets of its own."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
import yaml

from dragoman.model.ports import free_ports

REPOSITORY = Path(__file__).resolve().parents[2]
COMPOSITION: dict[str, Any] = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text(encoding="utf-8"))
PORTS = ("JOBS", "MLFLOW", "ENDPOINT", "PROMETHEUS", "RAY")
NEVER = {"grafana"}  # no package brings it
LIKE_DOCKER = "--podman-run-args=--read-only-tmpfs=false"  # else podman adds places to write, /run among them
PATIENCE = 600.0  # seconds until a service is healthy, on a busy machine
OURS = ("conf", "model", "pipelines", "services")  # in the image of trainings
DIGEST = """
import hashlib, pathlib, sys
root, *packages = sys.argv[1:]
found = hashlib.sha256()
paths = (one for name in packages for one in pathlib.Path(root, name).rglob("*"))
for path in sorted(one for one in paths if one.suffix in (".py", ".yaml")):
    found.update(str(path.relative_to(root)).encode() + path.read_bytes())
print(found.hexdigest())
"""


@dataclass
class Containers:
    """A project of podman-compose."""

    project: str
    folder: Path
    program: str
    workers: int = 2
    ports: dict[str, int] = field(default_factory=lambda: dict(zip(PORTS, free_ports(len(PORTS)), strict=True)))

    @property
    def environment(self) -> dict[str, str]:
        stand_ins = {f"{name.upper()}_IMAGE": f"localhost/dragoman-test-{name}" for name in ("postgres", "prometheus")}
        ports = {f"{name}_PORT": str(port) for name, port in self.ports.items()}
        urls = {"JOBS_URL": self.url("JOBS"), "MLFLOW_URL": self.url("MLFLOW")}
        return {**os.environ, **stand_ins, **ports, **urls, "RAY_WORKERS": str(self.workers)}

    def url(self, name: str) -> str:
        return f"http://localhost:{self.ports[name]}"

    def secret(self, name: str) -> str:
        return (self.folder / "deploy" / "secrets" / name).read_text(encoding="utf-8").strip()

    def compose(self, *words: str, check: bool = True) -> str:
        command = [self.program, LIKE_DOCKER, "--project-name", self.project, *words]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=900, check=False
        )
        assert not check or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def containers(self, service: str) -> list[str]:
        count = self.workers if service == "ray-worker" else 1
        return [f"{self.project}_{service}_{number}" for number in range(1, count + 1)]

    def services(self) -> list[str]:
        """All that can run here, each after what it depends on."""
        graph = {name: set(one.get("depends_on", {})) for name, one in COMPOSITION["services"].items()}
        return [name for name in TopologicalSorter(graph).static_order() if name not in NEVER]

    def up(self, service: str, *options: str) -> None:
        """Start or replace a service once what it depends on is as the composition wants it, and wait for it."""
        self.compose("up", "--detach", "--no-build", "--no-deps", *options, service)
        self.wait(service)

    def down(self, check: bool = True) -> None:
        """Take away containers, networks and volumes. podman-compose forgets volumes of services that share a list of
        them by a YAML anchor."""
        self.compose("down", "--volumes", "--timeout", "60", check=check)
        for name in podman("volume", "ls", "--quiet", "--filter", f"name={self.project}_").stdout.split():
            podman("volume", "rm", name, check=check)

    def wait(self, service: str) -> None:
        """Until a service is healthy, or has ended where it ends by itself. Podman asks for health where systemd has
        timers; here it is asked to."""
        if COMPOSITION["services"][service].get("healthcheck", {}).get("disable"):
            self.until(lambda: self.state(service, "{{.State.Status}} {{.State.ExitCode}}") == "exited 0", service)
            return
        for name in self.containers(service):
            self.until(lambda name=name: is_healthy(name), service, pause=5.0)  # to ask costs a start of Python

    def until(self, good: Callable[[], bool], service: str, pause: float = 1.0) -> None:
        deadline = time.monotonic() + PATIENCE
        while not good():
            assert time.monotonic() < deadline, f"{service}: {self.log(service)}"
            time.sleep(pause)

    def state(self, service: str, wanted: str) -> str:
        return podman("inspect", "--format", wanted, self.containers(service)[0]).stdout.strip()

    def log(self, service: str) -> str:
        done = podman("logs", "--tail", "60", self.containers(service)[0], check=False)
        return (done.stdout + done.stderr)[-4000:]


def is_healthy(container: str) -> bool:
    return podman("healthcheck", "run", container, check=False).returncode == 0


def podman(*words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(["podman", *words], capture_output=True, text=True, timeout=600, check=False)
    assert not check or done.returncode == 0, f"podman {' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done


def compose_program() -> str:
    """podman-compose; skips where it, podman or an image is missing, or no container runs."""
    here = Path(sys.executable).with_name("podman-compose")
    program = str(here) if here.is_file() else shutil.which("podman-compose")
    if shutil.which("podman") is None or program is None:
        pytest.skip("podman and podman-compose are not installed (Debian: podman; pip: podman-compose)")
    targets = {one["build"]["target"] for one in COMPOSITION["services"].values() if "build" in one}
    wanted = [f"localhost/dragoman-{name}" for name in (*sorted(targets), "test-postgres", "test-prometheus")]
    missing = [name for name in wanted if podman("image", "exists", name, check=False).returncode]
    if missing:
        pytest.skip(f"images are missing ({', '.join(missing)}): make images BUILD='podman build --format docker'")
    ran = podman("run", "--rm", "--network=none", "--entrypoint=true", "localhost/dragoman-test-postgres", check=False)
    if ran.returncode:
        pytest.skip(f"no container runs here: {ran.stderr[-200:]}")
    return program


def code_in_image() -> tuple[str, str]:
    """Digests of our packages here, and in the image of trainings."""
    here = subprocess.run(
        [sys.executable, "-c", DIGEST, str(REPOSITORY), *OURS], capture_output=True, text=True, check=True
    )
    find = "import pathlib, dragoman; print(pathlib.Path(dragoman.__file__).parent)"
    where = podman("run", "--rm", "--network=none", "localhost/dragoman-train", "python", "-c", find).stdout.strip()
    there = podman("run", "--rm", "--network=none", "localhost/dragoman-train", "python", "-c", DIGEST, where, *OURS)
    return here.stdout.strip(), there.stdout.strip()


@contextmanager
def project(folder: Path) -> Iterator[Containers]:
    """A project of its own; its containers, networks and volumes are gone afterwards."""
    program = compose_program()
    shutil.copytree(REPOSITORY / "deploy", folder / "deploy", ignore=shutil.ignore_patterns("secrets"))
    shutil.copy(REPOSITORY / "docker-compose.yml", folder)
    subprocess.run([folder / "deploy" / "make-secrets.sh"], check=True, stdout=subprocess.DEVNULL)
    name = "dragoman" + hashlib.sha256(str(folder).encode()).hexdigest()[:8]
    one = Containers(name, folder, program)
    try:
        yield one
    finally:
        one.down(check=False)
