"""The processes of a service on this machine: found, frozen, killed."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

OBJECTS = 100 * 2**20  # bytes of the shared memory of a node that joins


def listener(port: int) -> psutil.Process | None:
    """The process of this user that listens on a port."""
    for process in _ours():
        with contextlib.suppress(psutil.Error):
            if any(c.laddr.port == port and c.status == psutil.CONN_LISTEN for c in process.net_connections("inet")):
                return process
    return None


def of_job(job: str) -> list[psutil.Process]:
    """Those that a job's attempt started, wherever in the tree Ray put them: its name is in their environment."""
    found = []
    for process in _ours():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("DRAGOMAN_JOB") == job and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def ranks(job: str) -> list[psutil.Process]:
    """The processes of a job in which workers train; Ray names them so."""
    found = []
    for process in of_job(job):
        with contextlib.suppress(psutil.Error):
            if "RayTrainWorker" in " ".join(process.cmdline()[:1]):
                found.append(process)
    return sorted(found, key=lambda process: process.create_time())


def ray_head() -> list[psutil.Process]:
    """The commands that started a Ray head, of this user."""
    found = []
    for process in _ours():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if "ray.scripts.scripts" in words and "--head" in words:
                found.append(process)
    return found


def join_ray(folder: Path, environment: Mapping[str, str], cpus: int) -> psutil.Process:
    """Another node of the cluster whose head keeps its files in `folder`."""
    address = (folder / "ray_current_cluster").read_text(encoding="utf-8").strip()
    # A Ray on the loopback interface alone lets nobody join: the node is told to, and reaches the head by a name of
    # 127.0.0.1 that Ray does not take for this machine's address in its network. It listens on all interfaces itself.
    address = address.replace("127.0.0.1:", "[::ffff:127.0.0.1]:")
    environment = {**environment, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1"}
    command = [
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block", f"--address={address}"),
        *(f"--num-cpus={cpus}", f"--object-store-memory={OBJECTS}", "--disable-usage-stats"),
        *("--dashboard-agent-listen-port=0", "--metrics-export-port=0", "--min-worker-port=0", "--max-worker-port=0"),
    ]
    quiet = subprocess.DEVNULL
    return psutil.Popen(command, env=environment, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)


def tree(process: psutil.Process) -> list[psutil.Process]:
    """A process and all below it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [process, *process.children(recursive=True)]
    return []


def alive(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def send(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    """A signal to each that is still there."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _ours() -> Iterator[psutil.Process]:
    user = os.getuid()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.uids().real == user and process.pid != os.getpid():
                yield process
