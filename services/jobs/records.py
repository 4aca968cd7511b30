"""What an attempt leaves in the folder of its job, HOME/jobs/JOB, on storage that the service and the nodes see.

a1.json      who runs it and since when, and at its end the exit code: the attempt's own word, which outranks Ray's
a1.log       what it has written, as it came; it outlives the cluster
a1.lock      locked as long as a process of the attempt lives: silence is not death, a free lock is
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

from model.files import atomic_write
from model.untrusted import open_regular, read_object, read_word, whole

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
        """What the attempt says of itself: pid, host, started; code and ended at its end. Empty before it has begun.

        `notes` is given what is wrong with the file; a `code` that is no exit code is left out.
        """
        path = self._path("json")
        found = read_object(path, notes)
        if "code" in found and whole(found["code"], most=255) is None:
            del found["code"]
            if notes is not None:
                notes.append(f"{path.name} is damaged (code)")
        return found

    def write(self, **values: Any) -> None:
        """Add to the record."""
        atomic_write(self._path("json"), json.dumps({**self.record(), **values}))

    def ask(self, request: Request) -> None:
        """Ask it to end in order. `stop` has the last word."""
        if self.asked() != "stop":
            self.folder.mkdir(parents=True, exist_ok=True)
            atomic_write(self._path("request"), request)

    def asked(self) -> Request | None:
        """What it was asked for."""
        word = read_word(self._path("request"))
        return None if word is None else "stop" if word == "stop" else "yield"

    def superseded(self) -> bool:
        """Whether a later attempt of the job has begun."""
        others = (path.name[1:].partition(".")[0] for path in self.folder.glob("a*.lock"))
        return any(int(number) > self.number for number in others if number.isdigit())

    def hold(self) -> int | None:
        """Take the attempt, for whoever inherits the descriptor; None where it was taken before, by whomever.

        The lock is made, locked, and only then given its name: nobody ever sees a free one whose owner still comes.
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
        """Whether a process of the attempt lives; None where none has ever been seen from here.

        Something else in the lock's place says nothing either: then the executor's word counts.
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
        """Bytes of the log from `offset` on; none where there are none."""
        try:
            with open_regular(self.log) as file:
                file.seek(offset)
                return file.read(limit)
        except OSError:
            return b""


def attempt_of(home: Path, job: str, number: int) -> Attempt:
    """The files of an attempt of `job` below the folder `home`."""
    return Attempt(home / "jobs" / job, number)
