"""The files of an attempt in the folder of its job, HOME/jobs/JOB, which the service and the nodes share.

a1.json      host, start, and at the end the exit code: the attempt's own record, which outranks Ray's
a1.log       the output as written; it outlives the cluster
a1.lock      locked while a process of the attempt lives: a silent attempt may live, one with a free lock is dead
a1.request   `yield` or `stop`, from the service
"""

import errno
import fcntl
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dragoman.model.files import atomic_write
from dragoman.model.untrusted import open_regular, read_object, read_word, whole

Request = Literal["yield", "stop"]
YIELDED = 75  # the exit code of an attempt that made room (EX_TEMPFAIL: try again later)


@dataclass(frozen=True)
class Attempt:
    """The files of one attempt."""

    folder: Path
    number: int

    def _path(self, kind: str) -> Path:
        return self.folder / f"a{self.number}.{kind}"

    @property
    def log(self) -> Path:
        return self._path("log")

    @property
    def lock(self) -> Path:
        return self._path("lock")

    def record(self, notes: list[str] | None = None) -> dict[str, Any]:
        """Returns the attempt's own record: pid, host, started; at its end code and ended. Empty before it has begun.

        The file's faults are added to `notes`; a `code` that is no exit code is left out.
        """
        path = self._path("json")
        values = read_object(path, notes)
        if "code" in values and whole(values["code"], most=255) is None:
            del values["code"]
            if notes is not None:
                notes.append(f"{path.name} is damaged (code)")
        return values

    def write(self, **values: Any) -> None:
        """Adds values to the record."""
        atomic_write(self._path("json"), json.dumps({**self.record(), **values}))

    def ask(self, request: Request) -> None:
        """Asks the attempt to end in order. `stop` overrides `yield`."""
        if self.asked() != "stop":
            self.folder.mkdir(parents=True, exist_ok=True)
            atomic_write(self._path("request"), request)

    def asked(self) -> Request | None:
        """Returns the request, if any."""
        word = read_word(self._path("request"))
        return None if word is None else "stop" if word == "stop" else "yield"

    def superseded(self) -> bool:
        """Returns True if a later attempt of the job has begun."""
        others = (path.name[1:].partition(".")[0] for path in self.folder.glob("a*.lock"))
        return any(int(number) > self.number for number in others if number.isdigit())

    def hold(self) -> int | None:
        """Takes the attempt for the process that inherits the descriptor; returns None if it was taken before.

        The lock is created, locked, and only then named: nobody sees a free lock whose owner is still to come.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".part-", dir=self.folder)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.link(name, self.lock)
        except FileExistsError:
            os.close(descriptor)
            return None
        finally:
            Path(name).unlink()
        return descriptor

    def held(self) -> bool | None:
        """Returns True if a process of the attempt lives; None if none has ever been seen from here.

        Another kind of file in the lock's place gives None too: then the executor's answer counts.
        """
        try:
            file = open_regular(self.lock)
        except OSError:
            return None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError as problem:
                if problem.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
                return True
        return False

    def read_log(self, offset: int, limit: int) -> bytes:
        """Returns a part of the log; one before its beginning is counted from the end. Empty if it cannot be read."""
        try:
            with open_regular(self.log) as file:
                file.seek(offset if offset >= 0 else max(0, file.seek(0, os.SEEK_END) + offset))
                return file.read(limit)
        except OSError:
            return b""


def attempt_of(home: Path, job: str, number: int) -> Attempt:
    """Returns the files of an attempt of `job` below the folder `home`."""
    return Attempt(home / "jobs" / job, number)
