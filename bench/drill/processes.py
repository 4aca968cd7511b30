"""Finds, freezes and kills the processes of a service on this machine."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

OBJECTS = 100 * 2**20  # bytes of shared memory of a joining node


def listener(port: int) -> psutil.Process | None:
    """Returns this user's process that listens on a port."""

    def listens(process: psutil.Process) -> bool:
        found = process.net_connections("inet")
        return any(one.laddr.port == port and one.status == psutil.CONN_LISTEN for one in found)

    return next(_among(_ours(), listens), None)


def find_job(job: str) -> list[psutil.Process]:
    """Returns the processes of a job's attempt, wherever Ray put them: its name is in their environment."""
    return alive(list(_among(_ours(), lambda process: process.environ().get("DRAGOMAN_JOB") == job)))


def ranks(job: str) -> list[psutil.Process]:
    """Returns the processes of a job in which workers train, found by Ray's names for them."""
    found = _among(find_job(job), lambda process: "RayTrainWorker" in " ".join(process.cmdline()[:1]))
    return sorted(found, key=lambda process: process.create_time())


def ray_head() -> Iterator[psutil.Process]:
    """Yields this user's commands that started a Ray head."""
    return _among(_ours(), lambda process: {"dragoman.services.jobs.up.head", "--head"} <= set(process.cmdline()))


def join_ray(folder: Path, environment: Mapping[str, str], cpus: int) -> psutil.Process:
    """Joins another node to the cluster whose head keeps its files in `folder`."""
    address = (folder / "ray_current_cluster").read_text(encoding="utf-8").strip()
    # A Ray on only the loopback interface lets no node join. The node is forced to join, and reaches the head by a name
    # of 127.0.0.1 that Ray does not take for this machine's network address. It listens on all interfaces itself.
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
    """Returns a process and all its descendants."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [process, *process.children(recursive=True)]
    return []


def alive(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Returns the processes that have not ended."""
    return list(_among(processes, lambda one: one.is_running() and one.status() != psutil.STATUS_ZOMBIE))


def send(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    """Sends a signal to each process that still exists."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _ours() -> Iterator[psutil.Process]:
    user = os.getuid()
    return _among(psutil.process_iter(), lambda process: process.uids().real == user and process.pid != os.getpid())


def _among(processes: Iterable[psutil.Process], holds: Callable[[psutil.Process], bool]) -> Iterator[psutil.Process]:
    """Yields the processes of which a condition holds; one that ends meanwhile is none."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if holds(process):
                yield process
