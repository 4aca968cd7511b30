"""A run's records on the local disk, kept until the server has them.

`spool/records.jsonl` only grows, one record per line; RUN/mlflow.json says up to which byte it was sent, and where to.
A record is written with one `write` call, so a process killed at any point leaves at most one torn last line. The
sender moves the mark after each acknowledged send; after a kill in between it sends those records again, which the
server takes as the same ones (same key, step, time and value). This module knows nothing of MLflow.
"""

import contextlib
import errno
import fcntl
import json
import logging
import os
import shutil
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.model.files import atomic_write, exclusive, is_locked
from dragoman.model.runs.paths import SPOOL, TRACKED
from dragoman.model.runs.record import read_tracked, write_tracked
from dragoman.model.untrusted import read_object, whole

logger = logging.getLogger(__name__)

RECORDS, WRITER = "records.jsonl", "writer.lock"
REGISTRATIONS = "versions.json"  # the versions made of the run's bundles


@dataclass(frozen=True)
class Record:
    """One line: kind, time (milliseconds since 1970), and fields; `end` is the byte after its line."""

    kind: str
    time: int
    fields: Mapping[str, Any]
    end: int


@dataclass(frozen=True)
class Mark:
    """The byte up to which the records were sent, and the server and the run that have them."""

    offset: int = 0
    server: str | None = None
    run_id: str | None = None


class Spool:
    """The folder `run_dir/spool`. Any number of processes may read; one at a time sends (`sending`)."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.folder = run_dir / SPOOL
        self.path = self.folder / RECORDS
        self._write = threading.Lock()
        self._descriptor: int | None = None
        self._writer: int | None = None

    # ------------------------------------------------------------------ writing

    def open(self) -> None:
        """Opens the file for appending, and holds the mark that shows that the run's writer is alive."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.identity()
        self._writer = os.open(self.folder / WRITER, os.O_RDWR | os.O_CREAT, 0o644)
        # Shared, unlike dragoman.model.files.exclusive: driver and worker may both write. Held until this process ends.
        fcntl.flock(self._writer, fcntl.LOCK_SH)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)

    def append(self, kind: str, when: int | None = None, **fields: Any) -> None:
        """Adds a record. Returns at once, without syncing to the disk; see `sync`. Raises OSError: the disk is full."""
        assert self._descriptor is not None, "append before open"
        entry = {"kind": kind, "time": now() if when is None else when, **fields}
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":"), default=_plain).encode() + b"\n"
        with self._write:
            size = os.fstat(self._descriptor).st_size
            if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # ends the torn record of a killed writer or a full disk, which is skipped
            if os.write(self._descriptor, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    def sync(self) -> None:
        """Forces the records to the disk, so that a power failure does not lose them."""
        with self._write:
            if self._descriptor is not None:
                os.fsync(self._descriptor)

    def close(self) -> None:
        """Ends writing and removes the writer's mark."""
        with self._write:
            for descriptor in (self._descriptor, self._writer):
                if descriptor is not None:
                    os.close(descriptor)
            self._descriptor = self._writer = None

    def keep(self, source: Path, name: str) -> Path:
        """Copies a small file into the spool, so that it can be sent even if the original is gone."""
        target = self.folder / "files" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        return target

    def write_text(self, text: str, name: str) -> Path:
        """Stores `text` (UTF-8) as a file of the spool."""
        target = self.folder / "files" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(target, text)
        return target

    # ------------------------------------------------------------------ reading

    def identity(self) -> str:
        """Returns a random id made once for this spool, to find a run again that was created but not recorded."""
        path = self.folder / "id"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(path, uuid.uuid4().hex)
        return path.read_text(encoding="utf-8").strip()

    def records(self, offset: int = 0) -> Iterator[Record]:
        """Yields whole records from byte `offset`. Torn lines are skipped with a warning."""
        if not self.path.exists():
            return
        with self.path.open("rb") as stream:
            stream.seek(offset)
            end = offset
            for line in stream:
                if not line.endswith(b"\n"):
                    return  # still being written, or torn: not to be judged yet
                end += len(line)
                try:
                    entry = json.loads(line)
                    kind, when = entry.pop("kind"), int(entry.pop("time"))
                except (ValueError, KeyError, AttributeError):
                    if line.strip():
                        logger.warning("%s: an unreadable line before byte %d is skipped", self.path, end)
                    continue
                yield Record(kind, when, entry, end)

    def pending(self) -> int:
        """Returns the number of unsent bytes."""
        return pending(self.run_dir)

    def status(self) -> str | None:
        """Returns the run's last recorded status; None if there is none."""
        statuses = [record.fields["status"] for record in self.records() if record.kind == "status"]
        return statuses[-1] if statuses else None

    def last_steps(self) -> dict[str, int]:
        """Returns the highest spooled step of each metric key."""
        steps: dict[str, int] = {}
        for record in self.records():
            if record.kind == "metrics":
                for key in record.fields["values"]:
                    steps[key] = max(record.fields["step"], steps.get(key, record.fields["step"]))
        return steps

    # ------------------------------------------------------------------ sending

    @contextlib.contextmanager
    def sending(self) -> Iterator[bool]:
        """Yields True if this process (and thread) may send now, and False if another one does."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with exclusive(self.folder / "sender.lock") as held:
            yield held

    def mark(self) -> Mark:
        """Returns the mark up to which records were sent; the beginning if none were."""
        return Mark(**read_tracked(self.run_dir))

    def set_mark(self, mark: Mark) -> None:
        """Records, atomically, that everything before `mark.offset` has arrived."""
        write_tracked(self.run_dir, vars(mark))

    def refuse(self, record: Record, reason: str) -> None:
        """Sets aside a record that the server will never take, with the reason."""
        entry = {"reason": reason, "kind": record.kind, "time": record.time, **record.fields}
        with (self.folder / "refused.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(entry, ensure_ascii=False) + "\n")

    def writer_alive(self) -> bool:
        """Returns True if a process holds this spool open for writing."""
        return is_locked(self.folder / WRITER)


def pending(run: Path) -> int:
    """Returns the bytes of a run's records that have not reached the server."""
    try:
        size = (run / SPOOL / RECORDS).stat().st_size
    except OSError:
        return 0
    return max(0, size - (whole(read_object(run / TRACKED).get("offset"), most=2**63) or 0))


def spooled_runs(runs: Path) -> Iterator[Path]:
    """Yields the folders below `runs` that have, or had, records to send."""
    return (path.parent.parent for path in runs.glob(f"*/{SPOOL}/{RECORDS}"))


def now() -> int:
    """Returns milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _plain(value: Any) -> Any:
    """Returns the value of a numpy or torch scalar, and the text of anything else that JSON lacks."""
    return value.item() if hasattr(value, "item") else str(value)
