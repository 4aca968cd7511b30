"""A run whose folder stands for an address: its remote files as a sequence of snapshots, which are only created.

RUN/objects/SHA256            a file of the run, by its content
RUN/snapshots/000001.json     {"attempt", "files": {name: [bytes, sha256]}}; N + 1 follows N, and commits it
RUN/head.json                 a lower bound of the newest number: where to begin to search
RUN/bundle/..., RUN/*.json    for people and other tools, under their own names, when the run is released

The number of a snapshot is the fence: an attempt begins by creating the next one in its own name. An attempt that was
replaced (a paused worker that wakes up, a node that was cut off) finds that the next number is taken by another
attempt, and stops. So the files of two attempts are never mixed. Nothing is listed.
"""

import contextlib
import hashlib
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from dragoman.model.errors import ServiceError, UserError
from dragoman.model.files import PART, atomic_write, exclusive, file_sha256
from dragoman.model.plural import plural
from dragoman.model.repeated import repeated
from dragoman.model.runs import attempts, checkpoints
from dragoman.model.runs.paths import ATTEMPT, OF_THIS_MACHINE, RAY, SNAPSHOT, SNAPSHOT_LOCK
from dragoman.model.storage import remote, retry
from dragoman.model.storage.mirror import Remote
from dragoman.model.storage.retry import ExistsError, NotThereError

LARGE = ".safetensors"  # files that are not read into memory: they never change under their name
EVERY = 1.0  # seconds between two looks for a new checkpoint
AGAIN = 10.0  # seconds until a failed send is tried again
PATIENCE = 20.0  # seconds of one try beside the training
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """The contents of a run's folder at one time; without number before the first one."""

    number: int = 0
    attempt: int = 0
    files: dict[str, tuple[int, str]] = field(default_factory=dict)  # name -> (bytes, sha256)

    @property
    def objects(self) -> set[str]:
        return {sha256 for _, sha256 in self.files.values()}


def newest(elsewhere: Remote) -> Snapshot:
    """Returns the last snapshot. Raises RefusedError, AwayError."""
    snapshot, number = Snapshot(), 1
    with contextlib.suppress(NotThereError):
        number = int(json.loads(remote.read(elsewhere.at("head.json"), elsewhere.deadline)))
    with contextlib.suppress(NotThereError):
        while True:
            snapshot = _read(elsewhere, number)
            number += 1
    return snapshot


def pull(run: Path, elsewhere: Remote) -> Snapshot:
    """Makes the run's folder equal to the newest snapshot, unless it continues from that one already; returns it.

    Where the bucket has none, the folder stays as it is.

    Raises UserError: a remote file differs from the one that was sent. Raises RefusedError, AwayError.
    """
    run.mkdir(parents=True, exist_ok=True)
    with exclusive(run / SNAPSHOT_LOCK, wait=True):  # the ranks of a machine have one folder
        for _ in range(3):  # superseded files may be removed while we fetch them
            snapshot = newest(elsewhere)
            if snapshot.number in (0, base(run)):
                return snapshot
            with contextlib.suppress(NotThereError):
                _fetch(run, elsewhere, snapshot)
                return snapshot
        raise UserError(f"{elsewhere.address}: changes faster than it can be fetched; is it being trained elsewhere?")


def base(run: Path) -> int:
    """Returns the number of the snapshot that the run's folder continues from; 0: of none."""
    try:
        return int(json.loads((run / SNAPSHOT).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return 0


def begin(run: Path, elsewhere: Remote) -> int:
    """Takes over the run: fetches its files, begins the next attempt here and remotely, and returns its number.

    Raises StaleAttemptError: another start was faster. Raises RefusedError, AwayError.
    """
    for _ in range(3):
        before = pull(run, elsewhere)
        attempt = attempts.next_attempt(run)
        with contextlib.suppress(ExistsError):  # by the attempt before ours, still at work: once more after it
            _commit(run, elsewhere, Snapshot(before.number + 1, attempt, before.files))
            return attempt
    raise attempts.StaleAttemptError(f"{elsewhere.address}: another start of the run has taken over")


def send(run: Path, elsewhere: Remote, attempt: int, there: set[str] | None = None) -> None:
    """Makes a snapshot of the folder, if it has changed; each object is sent once.

    `there`: the objects that sends before this one have uploaded, for a snapshot or in vain; kept up to date.

    Raises StaleAttemptError: another attempt has taken over; the folder records it. Raises FileNotFoundError: a
    file was removed meanwhile: send again. Raises RefusedError, AwayError.
    """
    number = base(run)
    before = _read(elsewhere, number) if number else Snapshot()
    there = set() if there is None else there
    there |= before.objects
    files: dict[str, tuple[int, str]] = {}
    for name in sorted(_names(run)):
        files[name] = _send_file(run / name, elsewhere, there)
        there.add(files[name][1])
    snapshot = Snapshot(number + 1, attempt, files)
    if files == before.files and attempt == before.attempt:
        return
    try:
        _commit(run, elsewhere, snapshot)
    except ExistsError:
        attempt_there = newest(elsewhere).attempt
        # the next one to ask stops; and what this folder knows is not the attempt that has taken over
        atomic_write(run / ATTEMPT, str(max(attempt_there, attempt) + 1))
        raise attempts.StaleAttemptError(
            f"{elsewhere.address}: attempt {attempt} was replaced by attempt {attempt_there}; nothing more of this one "
            f"is kept"
        ) from None
    gone = there - snapshot.objects
    there -= gone
    for sha256 in gone:
        remote.delete(elsewhere.at(f"objects/{sha256}"), elsewhere.deadline)


@contextlib.contextmanager
def sending(run: Path, elsewhere: Remote, attempt: int) -> Iterator[None]:
    """Sends the run's folder within the block after each checkpoint, and at its end.

    Raises StaleAttemptError: another start has taken over. Raises ServiceError: the last checkpoint could not be sent.
    """
    patient = replace(elsewhere, deadline=min(PATIENCE, retry.DEADLINE))
    there: set[str] = set()
    sent: Path | None = None
    said: Exception | None = None
    again = 0.0  # by the monotonic clock, after a failed send

    def look(last: bool) -> None:
        nonlocal sent, said, again
        checkpoint = checkpoints.newest(run)
        if checkpoint == sent or (time.monotonic() < again and not last):
            return
        try:
            send(run, patient, attempt, there)
        except FileNotFoundError:  # an old checkpoint was removed while it was being sent
            return
        except (ServiceError, UserError, OSError) as problem:
            if said is None:
                logger.warning(f"checkpoints wait in {run} until they can be sent ({problem})")
            said, again = problem, time.monotonic() + AGAIN
            return
        except attempts.StaleAttemptError as stale:  # the next checkpoint finds that too
            logger.error(str(stale))
        else:
            if said is not None:
                logger.info(f"{elsewhere.address}: what had to wait is sent")
        sent, said = checkpoint, None

    with repeated(look, EVERY, "publisher"):
        yield
    try:
        send(run, elsewhere, attempt, there)
    except (ServiceError, UserError) as away:
        raise ServiceError(
            f"the last checkpoint could not be sent ({away}). It is kept in {run}; the same command, given on this "
            f"machine, sends it and goes on"
        ) from None


def _commit(run: Path, elsewhere: Remote, snapshot: Snapshot) -> None:
    """Creates the snapshot, whose objects all exist.

    Raises ExistsError: its number is taken. Raises RefusedError, AwayError.
    """
    content = json.dumps({"attempt": snapshot.attempt, "files": snapshot.files}, sort_keys=True).encode()
    remote.create(_address(elsewhere, snapshot.number), content, elsewhere.deadline)
    atomic_write(run / SNAPSHOT, str(snapshot.number))
    remote.write(elsewhere.at("head.json"), str(snapshot.number).encode(), elsewhere.deadline)


def _send_file(path: Path, elsewhere: Remote, there: set[str]) -> tuple[int, str]:
    """Returns the size and sha256 of a file, which is sent unless it is `there`."""
    if path.suffix == LARGE:
        status = path.stat()
        sha256 = _known_sha256(path, status.st_size, status.st_mtime_ns, status.st_ino)
        if sha256 not in there:
            remote.upload(path, elsewhere.at(f"objects/{sha256}"), elsewhere.deadline)
        return status.st_size, sha256
    content = path.read_bytes()  # at once: a journal grows while it is sent
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 not in there:
        remote.write(elsewhere.at(f"objects/{sha256}"), content, elsewhere.deadline)
    return len(content), sha256


@lru_cache(maxsize=256)
def _known_sha256(path: Path, *_identity: int) -> str:
    return file_sha256(path)


def _address(elsewhere: Remote, number: int) -> str:
    return elsewhere.at(f"snapshots/{number:06d}.json")


def _read(elsewhere: Remote, number: int) -> Snapshot:
    values = json.loads(remote.read(_address(elsewhere, number), elsewhere.deadline))
    files = {str(name): (int(size), str(sha256)) for name, (size, sha256) in values["files"].items()}
    return Snapshot(number, int(values["attempt"]), files)


def _names(run: Path) -> list[str]:
    """Returns the files of a run, relative to its folder, that another machine needs to continue it."""
    names = []
    for path in run.rglob("*"):
        name = path.relative_to(run)
        hidden = any(part.startswith(".") for part in name.parts)  # .part-... and folders that are being written
        if not (hidden or name.parts[0] == RAY or name.suffix == ".lock" or str(name) in OF_THIS_MACHINE):
            names += [name.as_posix()] * path.is_file()
    return names


def _fetch(run: Path, elsewhere: Remote, snapshot: Snapshot) -> None:
    """Makes the folder equal to the snapshot: fetches missing files and removes extra ones."""
    size = sum(bytes_ for bytes_, _ in snapshot.files.values())
    logger.info(f"fetching {plural(len(snapshot.files), 'file')} ({size / 1e6:,.1f} MB) of {elsewhere.address}")
    for name in _names(run):
        if name not in snapshot.files:
            (run / name).unlink()
    for name, (size, sha256) in snapshot.files.items():
        path = run / name
        if not path.resolve().is_relative_to(run.resolve()):
            raise UserError(f"{elsewhere.address}: names a file outside of the run, {name!r}")
        if path.is_file() and path.stat().st_size == size and file_sha256(path) == sha256:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{PART}{sha256}")
        remote.download(elsewhere.at(f"objects/{sha256}"), part, size, sha256, elsewhere.deadline)
        part.replace(path)
    for folder in sorted((path for path in run.rglob("*") if path.is_dir()), reverse=True):
        if folder.relative_to(run).parts[0] != RAY:
            with contextlib.suppress(OSError):  # not empty
                folder.rmdir()
    atomic_write(run / SNAPSHOT, str(snapshot.number))
