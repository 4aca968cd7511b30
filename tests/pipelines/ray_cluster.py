"""One Ray for the tests that need some Ray but not one of a command's own: its start takes seconds."""

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from dragoman.model.ports import free_ports
from dragoman.pipelines.cluster.embedded_ray import AT_IMPORT, NO_METRICS
from tests.warm import REPOSITORY

CPUS = 2


@dataclass(frozen=True)
class RayCluster:
    """The head on the loopback interface, and what commands need to use it."""

    process: "subprocess.Popen[str]"
    address: str
    environment: dict[str, str]

    @property
    def word(self) -> str:
        return f"cluster.address={self.address}"

    def workers(self) -> list[psutil.Process]:
        """The workers of the training that runs."""
        return self._named("ray::RayTrainWorker")

    def kill(self) -> None:
        """Kills what a killed training leaves here; with its command that is its whole tree."""
        for one in self._named("ray::"):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()

    def _named(self, name: str) -> list[psutil.Process]:
        found = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                title = " ".join(child.cmdline()[:1])
                if name in title and "DashboardAgent" not in title and "RuntimeEnvAgent" not in title:
                    found.append(child)
        return found


@contextlib.contextmanager
def ray_cluster() -> Iterator[RayCluster]:
    """Runs the head within the block."""
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    environment = token | AT_IMPORT | NO_METRICS | {"PYTHONPATH": str(REPOSITORY)}
    head = subprocess.Popen(
        [sys.executable, "-m", "dragoman.pipelines.cluster.ray_head", address, str(CPUS), "300"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env=os.environ | environment,
        start_new_session=True,
    )
    assert head.stdin is not None and head.stdout is not None
    with head:
        try:
            assert head.stdout.readline() == "up\n", "Ray did not start"
            yield RayCluster(head, address, environment)
        finally:
            head.stdin.close()
