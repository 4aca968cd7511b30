"""Confines a job's process to the files of its job and of the system; above all, it cannot open the job service's.

The service lists in the variable DRAGOMAN_GRANT what an attempt may read and write. The job's process confines itself
before the command begins; Ray's workers do so before their task begins. Needs Linux 5.19 or newer.
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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dragoman.model import landlock

VARIABLE = "DRAGOMAN_GRANT"
RAY_FOLDER = (
    "DRAGOMAN_RAY_FOLDER"  # folders with the sockets and logs of the Ray that runs jobs, with a colon between two
)
CACHES = ("cache", "versions", "evaluations", "cooccurrences", "verified")  # below the home, shared by all jobs
LOCKS = ("mlflow/promote.lock",)  # files below the home that jobs hold in turn
CODE = ("pyproject.toml", ".git")  # the version and the commit of a checkout
PACKAGES = ("conf", "dragoman", "model", "pipelines", "services")
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
# Within the user's own folder: the caches of libraries, and the credentials of buckets and MLflow.
KEPT = (".cache/numba", ".cache/matplotlib", ".cache/torch", ".config/matplotlib")
CREDENTIALS = (".aws", ".config/gcloud")
_done = threading.local()
_spares: list[Path] = []


@dataclass(frozen=True)
class Grant:
    """The files that one attempt may open, beside the system's."""

    roots: tuple[str, ...]  # the home, then the folders of service.roots
    secrets: tuple[str, ...]  # files of the service outside its own folder
    read: tuple[str, ...]
    write: tuple[str, ...]
    record: tuple[str, ...] = ()  # folders that get a run's folder, whose name is known only later

    @property
    def closed(self) -> tuple[Path, ...]:
        """Returns the places that stay closed, even inside a folder that may be read."""
        return tuple(Path(place).resolve() for place in (self.roots[0], *self.secrets))


def read_grant() -> Grant | None:
    """Returns the grant of this process; None if no job service started it."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return None
    values = json.loads(text)
    return Grant(*(tuple(map(str, values.get(name, ()))) for name in ("roots", "secrets", "read", "write", "record")))


def temporary_prefix() -> str:
    """Returns the prefix of this attempt's folders in the system's temporary folder."""
    return f"{_prefix()}{os.environ.get('DRAGOMAN_ATTEMPT', '')}-"


def _prefix() -> str:
    """Returns the prefix of the names of this job's folders, of all attempts."""
    return f"dragoman-job-{os.environ.get('DRAGOMAN_JOB', '')}-"


def _remove_earlier() -> None:
    """Removes the folders that killed workers of earlier attempts have left on this node."""
    attempt = os.environ.get("DRAGOMAN_ATTEMPT", "")
    for left in Path(tempfile.gettempdir()).glob(f"{glob.escape(_prefix())}*"):
        number = left.name.removeprefix(_prefix()).partition("-")[0]
        if number.isdecimal() and attempt.isdecimal() and int(number) < int(attempt):
            shutil.rmtree(left, ignore_errors=True)


def confine_worker() -> None:
    """Confines this thread of a worker to its job's files, once, and only if a job service started the job.

    Other threads of the worker, which are Ray's own, stay unconfined. The worker gets a temporary folder, which another
    thread removes at the end. Ray kills most workers, so that no thread can: then the runner removes the folder on its
    own node, and the first worker of the next attempt does so on other nodes.
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
    """Confines this thread and everything it starts to the grant, the system's files and the folder `temporary`.

    Raises OSError: the kernel refuses.
    """
    home = Path.home()
    for place in (*(home / name for name in KEPT), *(Path(grant.roots[0]) / name for name in CACHES)):
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue  # the home is read-only: nothing can be kept there
    for place in map(Path, grant.write):
        place.mkdir(parents=True, exist_ok=True)  # a rule needs an existing folder
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
    """Makes a folder whose name was not known when this process was confined.

    Landlock's rules apply to existing folders and follow them when renamed, so a spare folder is kept for this.
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
    if "MLFLOW_TRACKING_USERNAME" not in os.environ:  # a pod's login is a file; a user's own login is not for jobs
        credentials.append(home / ".mlflow")
    for place in (*map(Path, SYSTEM), *libraries, *own, *credentials):
        for part in _exclude(place.resolve(), grant.closed):
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
    for sessions in os.environ.get(RAY_FOLDER, "/tmp/ray").split(os.pathsep):
        yield from _ray_rules(Path(sessions), grant.closed)


def _ray_rules(folder: Path, closed: Sequence[Path]) -> Iterator[tuple[Path, int]]:
    """A driver may read the session's files and add logs, but not read those of others, nor what lies beside Ray's."""
    folder = folder.resolve()
    shared = any(place.is_relative_to(folder) for place in closed)
    for place in folder.glob("session_*") if shared else (folder,):
        yield place, landlock.MAKE | landlock.READ_DIR
        for part in _exclude(place, tuple(folder.glob("session_*/logs"))):
            yield part, landlock.READ


def _exclude(place: Path, closed: Iterable[Path]) -> Iterator[Path]:
    """Yields `place`, or those of its parts that neither are nor contain a closed place."""
    inside = [path for path in closed if path.is_relative_to(place)]
    if not inside:
        yield place
    elif place not in inside and place.is_dir():
        for entry in place.iterdir():
            if not entry.is_symlink():
                yield from _exclude(entry, inside)
