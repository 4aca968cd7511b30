"""The table of faults: what each does to the service, and how to undo it."""

import contextlib
import signal
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.drill import processes
from bench.drill.scene import Scene

FROZEN = 10.0  # seconds that a process is frozen, or a file held
ROOMIER = 4  # factor of CPUs that a second node claims, so that Ray prefers it
Undo = Callable[[], None]


@dataclass(frozen=True)
class Fault:
    """`make` causes the fault and returns a function that undoes it, if it can be undone.

    It raises ImpossibleError if there is nothing to hit.
    """

    about: str
    make: Callable[[Scene], Undo | None]
    seconds: float = 0.0  # duration until it is undone
    ends: bool = False  # True if it ends the workers' processes
    prepare: Callable[[Scene], None] = lambda _: None  # makes what the fault needs
    delayed: bool = False  # True if `make` returns when the service acts, and the time counts from then


class ImpossibleError(Exception):
    """There is nothing here that the fault could hit."""


def preemption(scene: Scene) -> None:
    """Submits a job of another owner with higher priority while the cluster is full.

    The training is asked to yield once it has run for `service.preempt_after` seconds.
    """
    nodes = scene.service.status()["nodes"]
    state = scene.state()
    if sum(node["cpus"] for node in nodes) - state["workers"] * state["cpus"] >= 1:
        raise ImpossibleError("the cluster is larger than the drill's training: there is room beside it")
    scene.others.append(scene.other.submit("doctor", [], priority="high")["id"])

    def asked() -> bool:
        now = scene.state()
        return bool(now) and (now["state"] != "running" or now["attempt"] != state["attempt"])

    scene.wait("the training is asked to make room", asked)


def yielding(scene: Scene) -> None:
    scene.service.act(scene.job, "yield")


def worker(scene: Scene) -> None:
    found = processes.ranks(scene.job)
    if not found:
        raise ImpossibleError("no process of a worker is on this machine")
    processes.send(found[-1:], signal.SIGKILL)


def driver(scene: Scene) -> None:
    """Kills the runner and the command: all of the job that is not Ray's."""
    found = [one for one in processes.find_job(scene.job) if not " ".join(_words(one)).startswith("ray::")]
    if not found:
        raise ImpossibleError("its processes are on another machine")
    processes.send(found, signal.SIGKILL)


def head(scene: Scene) -> None:
    processes.send(processes.tree(_ray(scene)), signal.SIGKILL)


def second_node(scene: Scene) -> None:
    """Joins another machine, as large as all that jobs may use, and moves the training there."""
    words = _words(_ray(scene))
    folder = next(word.partition("=")[2] for word in words if word.startswith("--temp-dir="))
    cpus = sum(node["cpus"] for node in scene.service.status()["nodes"])
    scene.node = processes.join_ray(Path(folder), _ray(scene).environ(), round(ROOMIER * cpus))
    scene.wait("a second node joins", lambda: len(scene.service.status()["nodes"]) > 1)
    attempt, at = scene.state()["attempt"], scene.progress().step
    scene.service.act(scene.job, "yield")
    scene.wait("it goes on", lambda: scene.state().get("attempt", 0) > attempt and scene.further(at))


def node(scene: Scene) -> None:
    """Kills all of its processes at once, as when a machine loses its power."""
    lost = [] if scene.node is None else processes.tree(scene.node)
    hit = {process.pid for process in lost} & {process.pid for process in processes.ranks(scene.job)}
    processes.send(lost, signal.SIGKILL)
    if not hit:
        raise ImpossibleError("Ray had put no worker on the second node")


def late(scene: Scene) -> Undo:
    """Makes the head's job server answer late."""
    _ray(scene)
    found = processes.listener(scene.ports()["ray"])
    if found is None:
        raise ImpossibleError("nothing listens where Ray's job server should")
    return _freeze([found])


def service(scene: Scene) -> Undo:
    found = processes.listener(scene.ports()["jobs"])
    if found is None:
        raise ImpossibleError("the service is not of this machine")
    return _freeze([found])


def silence(scene: Scene) -> Undo:
    """Freezes every process of the training."""
    found = processes.find_job(scene.job)
    if not found:
        raise ImpossibleError("its processes are on another machine")
    return _freeze(found)


def ledger(scene: Scene) -> Undo:
    """Locks sqlite's ledger by another program, so that nothing can be written."""
    path = scene.home / "service" / "ledger.db"
    if not path.exists():
        raise ImpossibleError("the ledger is no file of this machine")
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")

    def undo() -> None:
        connection.rollback()
        connection.close()

    return undo


def full_disk(scene: Scene) -> Undo:
    """Stops the workers from writing, as on a full disk: the system then refuses larger files."""
    found = processes.ranks(scene.job)
    if not found:
        raise ImpossibleError("no process of a worker is on this machine")
    before = {process: process.rlimit(psutil.RLIMIT_FSIZE) for process in found}
    for process, (_, hard) in before.items():
        process.rlimit(psutil.RLIMIT_FSIZE, (0, hard))

    def undo() -> None:
        for process, limit in before.items():
            with contextlib.suppress(psutil.Error):
                process.rlimit(psutil.RLIMIT_FSIZE, limit)

    return undo


def _ray(scene: Scene) -> psutil.Process:
    """Returns the head that the service has started."""
    ports = scene.ports()
    for found in processes.ray_head() if "ray" in ports else ():
        if f"--dashboard-port={ports['ray']}" in _words(found):
            return found
    raise ImpossibleError("the Ray cluster is another's")


def _freeze(found: list[psutil.Process]) -> Undo:
    processes.send(found, signal.SIGSTOP)
    return lambda: processes.send(found, signal.SIGCONT)


def _words(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


FAULTS: dict[str, Fault] = {
    "preemption": Fault(
        "a job of another owner and higher priority needs its place", preemption, ends=True, delayed=True
    ),
    "yield": Fault("it is asked to make room", yielding, ends=True),
    "worker": Fault("a worker's process is killed", worker, ends=True),
    "driver": Fault("the job's own processes are killed", driver, ends=True),
    "silence": Fault("all its processes stand still", silence, FROZEN),
    "disk": Fault("the workers can write nothing, as on a full disk", full_disk, ends=True),
    "ledger": Fault("the ledger is locked by another program", ledger, FROZEN),
    "service": Fault("the job service stands still", service, FROZEN),
    "node": Fault("a node is lost on which its workers train", node, ends=True, prepare=second_node),
    "late": Fault("Ray's job server answers late", late, FROZEN),
    "head": Fault("Ray's head is killed with everything below it", head, ends=True),
}
