"""The subprocesses of `dragoman up`: a Ray head behind a token, MLflow, the endpoint."""

import os
import secrets
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.model.files import secret_file
from dragoman.model.ports import free_ports
from dragoman.services.jobs.options import this_user
from dragoman.services.jobs.settings import ServiceConfig
from dragoman.services.jobs.up.children import Child
from dragoman.services.jobs.up.mlflow import LOGINS

# Without the first variable, `ray start` takes 127.0.0.1 for this machine's network address and listens on every
# interface. With it Ray stays on this machine. The others disable three metrics ports, which need no token: -1 is no
# port, so Ray logs that it could not open it, and continues.
ON_LOOPBACK = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_enable_metrics_collection": "0",
    "AUTOSCALER_METRIC_PORT": "-1",
    "DASHBOARD_METRIC_PORT": "-1",
}
OF_DATABASES = ("PGPASSWORD", "PGPASSFILE")  # for the endpoint alone: its database is not for jobs
OBJECTS = 256 * 2**20  # bytes of Ray's shared memory, which our data does not use


@dataclass(frozen=True)
class Layout:
    """Ports on the loopback interface, and folders."""

    home: Path
    tracking: int
    endpoint: int
    ray: int
    sockets: Path  # for this `up` alone

    @property
    def service(self) -> Path:
        return self.home / "service"

    @property
    def token(self) -> Path:
        return self.service / "ray_token"

    @property
    def ray_folder(self) -> Path:
        """Returns a folder within ours, because Ray's own is open to everybody."""
        return self.sockets / "r"


def choose_layout(home: Path, config: ServiceConfig, sockets: Path) -> Layout:
    """Returns the configured ports, or free ones; `sockets` is the folder of Ray's sockets."""
    first = config.ports
    ports = free_ports(3) if first == 0 else [first, first + 1, first + 2]
    tracking, endpoint, ray = ports
    return Layout(home, tracking, endpoint, ray, sockets)


def environment(layout: Layout, config: ServiceConfig, tracking: bool) -> dict[str, str]:
    """Returns the variables of every subprocess, and so of every job: the token, its file, the tracking server."""
    variables = {
        key: value for key, value in os.environ.items() if not key.startswith("RAY_") and key not in OF_DATABASES
    }
    variables |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(layout.token), "RAY_USAGE_STATS_ENABLED": "0"}
    variables |= {"RAY_JOB_STOP_WAIT_TIME_S": str(round(config.stop_timeout)), "DRAGOMAN_HOME": str(layout.home)}
    variables |= ON_LOOPBACK
    if tracking:
        variables |= {"MLFLOW_TRACKING_URI": f"http://127.0.0.1:{layout.tracking}", "MLFLOW_DISABLE_TELEMETRY": "true"}
    return variables


def write_token(layout: Layout) -> None:
    """Writes a token that only this user can read; it gives full rights on the cluster."""
    secret_file(layout.token, secrets.token_hex(32))


def ray_head(layout: Layout, config: ServiceConfig, variables: Mapping[str, str]) -> Child:
    """Returns the Ray head, with one CPU more than jobs may use, for starting them.

    Its autoscaler and the monitor of its logs do not run: nothing here scales, and jobs write their own logs.
    """
    (client,) = free_ports(1)
    cpus = config.cpus or os.cpu_count() or 1
    command = [
        sys.executable,
        "-m",
        "dragoman.services.jobs.up.head",
        "--head",
        "--no-monitor",
        "--include-log-monitor=false",
        f"--num-cpus={cpus + 1}",
        "--port=0",
        "--node-ip-address=127.0.0.1",
        f"--object-store-memory={OBJECTS}",
        "--disable-usage-stats",
        "--dashboard-host=127.0.0.1",
        f"--dashboard-port={layout.ray}",
        "--dashboard-agent-listen-port=0",
        f"--ray-client-server-port={client}",
        "--min-worker-port=0",
        "--max-worker-port=0",
        "--metrics-export-port=0",
        f"--temp-dir={layout.ray_folder}",
    ]

    def clear() -> None:
        shutil.rmtree(layout.ray_folder, ignore_errors=True)

    return Child("Ray", command, variables, Path.cwd(), layout.service / "ray.log", clear)


def tracking(
    layout: Layout, folder: Path, variables: Mapping[str, str], login: Mapping[str, str] | None = None
) -> Child:
    """Returns MLflow on the same files that are used without it; `login`: variables for a server with a login."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "dragoman.services.jobs.up.mlflow",
        f"{folder}/mlflow.db",
        str(layout.service / LOGINS) if login else "",
        *(["--app-name=basic-auth"] if login else []),
        "--host=127.0.0.1",
        f"--port={layout.tracking}",
        "--workers=1",
        f"--backend-store-uri=sqlite:///{folder}/mlflow.db",
        f"--artifacts-destination={folder}/artifacts",
    ]
    # MLflow's background jobs (six processes that judge prompts) are for language model applications
    quiet = {**variables, **(login or {}), "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    return Child("MLflow", command, quiet, Path.cwd(), layout.service / "mlflow.log")


def endpoint(layout: Layout, overrides: Sequence[str], variables: Mapping[str, str]) -> Child:
    """Returns the endpoint. It starts before there is a champion, and answers 503 until one is promoted: by default the
    model of this user's jobs."""
    own = f"paths.owner={this_user()}"
    command = [sys.executable, "-m", "dragoman.services.cli", "serve", own, *overrides, "serve.wait=true"]
    command.append(f"serve.port={layout.endpoint}")
    passwords = {name: os.environ[name] for name in OF_DATABASES if name in os.environ}
    return Child("endpoint", command, {**variables, **passwords}, Path.cwd(), layout.service / "endpoint.log")
