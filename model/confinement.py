"""A job's process opens the files of its job and of the system, and no others: the job service's own least of all.

The service says in the variable DRAGOMAN_GRANT what an attempt may read and write. The job's process confines itself
before the verb begins; workers that Ray starts elsewhere do so before their task begins. It takes Linux 5.19 or newer.
"""

import atexit
import contextlib
import glob
import json
import os
import shutil
import site
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from model import landlock

VARIABLE = "DRAGOMAN_GRANT"
RAY_FOLDER = "DRAGOMAN_RAY_FOLDER"  # where the Ray that runs jobs has its sockets and logs
CACHES = (
    "cache",
    "versions",
    "ensembles",
    "evaluations",
    "cooccurrences",
    "verified",
)  # below the home, shared by all jobs
LOCKS = ("mlflow/promote.lock",)  # files below the home that jobs hold in turn
CODE = ("pyproject.toml", ".git")  # what tells the version and the commit, in a checkout
PACKAGES = ("conf", "model", "pipelines", "services")
SYSTEM = (
    "/run/systemd/resolve",
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/sbin",
    "/etc",
    "/opt",
    "/nix",
    "/proc",
    "/sys",
)
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "shm", "pts", "nvidia*", "dri", "kfd")
# Of the user's own folder: what libraries compile and keep there; a bucket's and MLflow's credentials.
KEPT = (".cache/numba", ".cache/matplotlib", ".cache/torch", ".config/matplotlib", ".triton")
CREDENTIALS = (".aws", ".config/gcloud")
_done = threading.local()
_spares: list[Path] = []


@dataclass(frozen=True)
class Grant:
    """What one attempt may open, beside the system's files."""

    roots: tuple[str, ...]  # the home, then the folders of service.roots
    secrets: tuple[str, ...]  # files of the service outside of its own folder
    read: tuple[str, ...]
    write: tuple[str, ...]
    record: tuple[str, ...] = ()  # folders in which a run is made whose name is known only then

    @property
    def closed(self) -> tuple[Path, ...]:
        """What is never opened, even where it lies in a folder that may be read."""
        return tuple(Path(place).resolve() for place in (self.roots[0], *self.secrets))


def read_grant() -> Grant | None:
    """The grant of this process; None where no job service started it."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return None
    values = json.loads(text)
    return Grant(*(tuple(map(str, values.get(name, ()))) for name in ("roots", "secrets", "read", "write", "record")))


def temporary_prefix() -> str:
    """How the folders of this attempt begin in the system's folder for temporary files."""
    return f"{_prefix()}{os.environ.get('DRAGOMAN_ATTEMPT', '')}-"


def _prefix() -> str:
    """How those of all attempts of this job begin."""
    return f"dragoman-job-{os.environ.get('DRAGOMAN_JOB', '')}-"


def _remove_earlier() -> None:
    """Remove the folders that killed workers of earlier attempts have left on this node."""
    attempt = os.environ.get("DRAGOMAN_ATTEMPT", "")
    for left in Path(tempfile.gettempdir()).glob(f"{glob.escape(_prefix())}*"):
        number = left.name.removeprefix(_prefix()).partition("-")[0]
        if number.isdecimal() and attempt.isdecimal() and int(number) < int(attempt):
            shutil.rmtree(left, ignore_errors=True)


def confine_worker() -> None:
    """Confine this thread of a worker as its job is; once, and only where a job service started the job.

    Other threads of the worker, Ray's own, stay as they are. The worker gets a folder for temporary files, which
    another thread takes away at the end. Ray ends most workers without one: then the runner does it on its own node,
    and on others the next attempt's first worker.
    """
    grant = read_grant()
    if grant is None or not landlock.version() or getattr(_done, "once", False):
        return
    _done.once = True
    _remove_earlier()
    folder = tempfile.mkdtemp(prefix=temporary_prefix())
    over = threading.Event()

    def clean() -> None:
        over.wait()
        shutil.rmtree(folder, ignore_errors=True)

    cleaner = threading.Thread(target=clean, name="confinement", daemon=True)
    cleaner.start()

    def end() -> None:
        over.set()
        cleaner.join(5)

    atexit.register(end)
    tempfile.tempdir = folder
    confine(replace(grant, record=()), folder)


def confine(grant: Grant, temporary: str) -> None:
    """Confine this thread, and all that it starts, to the grant, the system's files and the folder `temporary`.

    Raises:
        OSError: the kernel refuses.
    """
    home = Path.home()
    for place in (*(home / name for name in KEPT), *(Path(grant.roots[0]) / name for name in CACHES)):
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue  # a home that cannot be written: then nothing is kept there
    for place in map(Path, grant.write):
        place.mkdir(parents=True, exist_ok=True)  # a rule is of a folder that exists
    for lock in (Path(grant.roots[0]) / name for name in LOCKS):
        with contextlib.suppress(OSError):
            lock.parent.mkdir(parents=True, exist_ok=True)
            lock.touch()
    for place in map(Path, grant.record):
        place.mkdir(parents=True, exist_ok=True)
        _spares.append(Path(tempfile.mkdtemp(prefix=".spare-", dir=place)))
        atexit.register(_remove, _spares[-1])
    landlock.restrict(_rules(grant, temporary, home))


def make_folder(path: Path) -> None:
    """Make a folder whose name was not known when this process was confined.

    Landlock's rules are of folders that exist and go with them when they are renamed, so one is kept for this.
    """
    if _spares and _spares[-1].parent == path.parent.resolve() and not path.exists():
        _spares.pop().rename(path)
    path.mkdir(parents=True, exist_ok=True)


def _remove(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _rules(grant: Grant, temporary: str, home: Path) -> Iterator[tuple[Path, int]]:
    code = Path(__file__).resolve().parents[1]
    python = (sys.prefix, sys.base_prefix, site.getusersitepackages(), *filter(None, sys.path))
    libraries = [place for place in map(Path, python) if place.resolve() != code]
    own = [code / name for name in (*PACKAGES, *CODE)]
    credentials = [home / name for name in CREDENTIALS]
    credentials += [Path(os.environ[name]) for name in ("AWS_SHARED_CREDENTIALS_FILE",) if name in os.environ]
    if "MLFLOW_TRACKING_USERNAME" not in os.environ:  # a pod's login is a file; a person's own is not for jobs
        credentials.append(home / ".mlflow")
    for place in (*map(Path, SYSTEM), *libraries, *own, *credentials):
        for part in _without(place.resolve(), grant.closed):
            yield part, landlock.READ
    for pattern in DEVICES:
        for place in Path("/dev").glob(pattern):
            yield place, landlock.READ | landlock.MAKE
    for name in grant.read:
        yield Path(name), landlock.READ
    caches = [Path(grant.roots[0]) / name for name in CACHES]
    if own_cache := os.environ.get("DRAGOMAN_CACHE"):  # of this node
        caches.append(Path(own_cache).expanduser())
    locks = (Path(grant.roots[0]) / name for name in LOCKS)
    for place in (*map(Path, grant.write), *caches, *locks, *(home / name for name in KEPT), Path(temporary)):
        yield place, landlock.READ | landlock.MAKE
    for folder in map(Path, grant.record):
        yield folder, landlock.MAKE_DIR | landlock.REMOVE_DIR
        for place in _spares:
            yield place, landlock.READ | landlock.MAKE
    yield from _of_ray(Path(os.environ.get(RAY_FOLDER, "/tmp/ray")))


def _of_ray(folder: Path) -> Iterator[tuple[Path, int]]:
    """A driver reads the session's files and adds logs to it, and does not read those of others."""
    yield folder, landlock.MAKE | landlock.READ_DIR
    for part in _without(folder.resolve(), tuple(folder.resolve().glob("session_*/logs"))):
        yield part, landlock.READ


def _without(place: Path, closed: Iterable[Path]) -> Iterator[Path]:
    """`place`, or those of its parts that neither are nor hold anything closed."""
    inside = [one for one in closed if one.is_relative_to(place)]
    if not inside:
        yield place
    elif place not in inside and place.is_dir():
        for entry in place.iterdir():
            if not entry.is_symlink():
                yield from _without(entry, inside)
