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
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.model.errors import UserError
from dragoman.model.files import PART, atomic_write, exclusive, file_sha256
from dragoman.model.plural import plural
from dragoman.model.runs import attempts
from dragoman.model.runs.paths import ATTEMPT, OF_THIS_MACHINE, RAY, SNAPSHOT, SNAPSHOT_LOCK
from dragoman.model.storage import remote
from dragoman.model.storage.mirror import Remote
from dragoman.model.storage.retry import ExistsError, NotThereError

LARGE = ".safetensors"  # files that never change under their name
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """The contents of a run's folder at one time."""

    number: int
    attempt: int
    files: dict[str, tuple[int, str]] = field(default_factory=dict)  # name -> (bytes, sha256)

    @property
    def content(self) -> bytes:
        """Returns the stored form."""
        return json.dumps({"attempt": self.attempt, "files": self.files}, sort_keys=True).encode()


def newest(elsewhere: Remote) -> Snapshot | None:
    """Returns the last snapshot; None if the run has none. Raises RefusedError, AwayError."""
    try:
        number = int(json.loads(remote.read(elsewhere.at("head.json"), elsewhere.deadline)))
    except NotThereError:
        number = 1
    snapshot = None
    while True:
        try:
            snapshot = _read(elsewhere, number)
        except NotThereError:
            return snapshot
        number += 1


def pull(run: Path, elsewhere: Remote) -> None:
    """Makes the run's folder equal to the newest snapshot, unless it continues from that one already.

    Raises UserError: a remote file differs from the one that was sent. Raises RefusedError, AwayError.
    """
    run.mkdir(parents=True, exist_ok=True)
    with exclusive(run / SNAPSHOT_LOCK, wait=True):
        for _ in range(3):  # superseded files may be removed while we fetch them
            snapshot = newest(elsewhere)
            if snapshot is None or snapshot.number == base(run):
                return
            try:
                _fetch(run, elsewhere, snapshot)
            except NotThereError:
                continue
            return
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
        pull(run, elsewhere)
        attempt = attempts.next_attempt(run)
        snapshot = newest(elsewhere)
        if snapshot is not None and snapshot.number != base(run):
            continue
        with contextlib.suppress(ExistsError):  # by the attempt before ours, still at work: once more after it
            commit(run, elsewhere, Snapshot(base(run) + 1, attempt, snapshot.files if snapshot else {}))
            return attempt
    raise attempts.StaleAttemptError(f"{elsewhere.address}: another start of the run has taken over")


def commit(run: Path, elsewhere: Remote, snapshot: Snapshot) -> None:
    """Creates the snapshot, whose objects all exist.

    Raises ExistsError: its number is taken. Raises RefusedError, AwayError.
    """
    remote.create(_address(elsewhere, snapshot.number), snapshot.content, elsewhere.deadline)
    atomic_write(run / SNAPSHOT, str(snapshot.number))
    remote.write(elsewhere.at("head.json"), str(snapshot.number).encode(), elsewhere.deadline)


class Sender:
    """Sends the changes of a run's folder, each object once."""

    def __init__(self, run: Path, elsewhere: Remote) -> None:
        self.run, self.elsewhere = run, elsewhere
        self._sent: set[str] = set()
        self._before: Snapshot | None = None
        self._known: dict[tuple[str, int, int, int], str] = {}

    def send(self, attempt: int) -> bool:
        """Makes a snapshot of the folder; returns True if there was anything new.

        Raises StaleAttemptError: another attempt has taken over; the folder records it. Raises FileNotFoundError: a
        file was removed meanwhile: send again. Raises RefusedError, AwayError.
        """
        number = base(self.run)
        if self._before is None or self._before.number != number:
            self._before = _read(self.elsewhere, number) if number else Snapshot(0, 0)
            self._sent |= {sha256 for _, sha256 in self._before.files.values()}
        files: dict[str, tuple[int, str]] = {}
        for name in sorted(_names(self.run)):
            files[name] = self._send_file(name)
        if files == self._before.files and attempt == self._before.attempt:
            return False
        snapshot = Snapshot(number + 1, attempt, files)
        try:
            commit(self.run, self.elsewhere, snapshot)
        except ExistsError:
            last_sent = newest(self.elsewhere)
            attempt_there = last_sent.attempt if last_sent else 0
            # the next one to ask stops; and what this folder knows is not the attempt that has taken over
            atomic_write(self.run / ATTEMPT, str(max(attempt_there, attempt) + 1))
            raise attempts.StaleAttemptError(
                f"{self.elsewhere.address}: attempt {attempt} was replaced by attempt {attempt_there}; nothing more of "
                f"this one is kept"
            ) from None
        gone = {sha256 for _, sha256 in self._before.files.values()} - {sha256 for _, sha256 in files.values()}
        self._before, self._sent = snapshot, self._sent - gone
        for sha256 in gone:
            remote.delete(self.elsewhere.at(f"objects/{sha256}"), self.elsewhere.deadline)
        return True

    def _send_file(self, name: str) -> tuple[int, str]:
        path = self.run / name
        if name.endswith(LARGE):
            status = path.stat()
            key = (name, status.st_size, status.st_mtime_ns, status.st_ino)
            sha256 = self._known.get(key) or file_sha256(path)
            self._known[key] = sha256
            if sha256 not in self._sent:
                remote.upload(path, self.elsewhere.at(f"objects/{sha256}"), self.elsewhere.deadline)
                self._sent.add(sha256)
            return status.st_size, sha256
        content = path.read_bytes()  # at once: a journal grows while it is sent
        sha256 = hashlib.sha256(content).hexdigest()
        if sha256 not in self._sent:
            remote.write(self.elsewhere.at(f"objects/{sha256}"), content, self.elsewhere.deadline)
            self._sent.add(sha256)
        return len(content), sha256


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
        if (
            hidden
            or name.parts[0] == RAY
            or name.name.endswith(".lock")
            or str(name) in OF_THIS_MACHINE
            or not path.is_file()
        ):
            continue
        names.append(name.as_posix())
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
