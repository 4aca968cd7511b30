"""The jobs in the folder of documents.

A job is a folder with its state (job.json), the document, and in the end the translation. Whoever holds the folder's
lock translates it.
"""

import contextlib
import dataclasses
import hmac
import json
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Literal, NamedTuple

from starlette.exceptions import HTTPException

from dragoman.model.files import atomic_write, exclusive
from dragoman.services.endpoint.memory_store import EVERYBODY
from dragoman.services.texts.documents.document import DocumentError

Status = Literal["queued", "translating", "done", "error"]
KEPT = 3600.0  # seconds after the end
ABANDONED = 24 * 3600.0  # seconds after the upload
ID = 32  # characters: hexadecimal digits, as DeepL's are
SECRET = 64


class Handle(NamedTuple):
    """A job's id, and the secret that its owner shows."""

    id: str
    key: str


@dataclass
class Job:
    """A job's state, as it is kept."""

    secret: str
    name: str
    source: str | None
    target: str
    version: str | None = None
    terms: dict[str, str] | None = None
    digest: str = ""  # of the API key that pays
    owner: str = EVERYBODY  # its name: whose known translations are asked
    languages: list[str] | None = None  # of the key; None: all
    priority: int = 0
    characters: int = 0
    submitted: float = 0.0
    status: Status = "queued"
    attempts: int = 0  # that were begun and neither ended nor stopped in order
    began: float = 0.0
    ended: float = 0.0
    share: float = 0.0  # that is translated
    error: str = ""
    notes: list[str] = field(default_factory=list)  # what its owner has to be told of the document

    @property
    def translated_name(self) -> str:
        path = PurePath(self.name)
        return f"{path.stem}_{self.target}{path.suffix}"


@dataclass(frozen=True)
class Jobs:
    """All jobs of a folder."""

    folder: Path
    now: Callable[[], float]

    def __iter__(self) -> Iterator[str]:
        with contextlib.suppress(FileNotFoundError):
            yield from (path.name for path in self.folder.iterdir() if _is_id(path.name))

    def add(self, job: Job, content: bytes) -> Handle:
        """Stores a new job with its document; OSError leaves nothing of it."""
        identity = secrets.token_hex(ID // 2).upper()
        try:
            self.place(identity).mkdir(mode=0o700, parents=True)
            atomic_write(self.source(identity), content)
            self.save(identity, job)
        except OSError:
            self.delete(identity)
            raise
        return Handle(identity, job.secret)

    def waiting(self) -> list[str]:
        """Returns the ids of the jobs that have not ended, the oldest first."""
        waiting_jobs = [
            (job.submitted, identity) for identity in self if (job := self.load(identity)) and not job.ended
        ]
        return [identity for _, identity in sorted(waiting_jobs)]

    def find(self, identity: str, key: str) -> Job:
        """Returns the job. Raises HTTPException: 404, there is none of this id and key."""
        job = self.load(identity) if _is_id(identity) else None
        if job is None or not hmac.compare_digest(job.secret.encode(), key.encode()):
            raise HTTPException(404, "There is no such document")
        return job

    def load(self, identity: str) -> Job | None:
        """Returns the job; None if it was deleted, or has only just been begun to be stored."""
        try:
            return Job(**json.loads((self.place(identity) / "job.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def save(self, identity: str, job: Job) -> None:
        """Stores the job's state. Raises DocumentError: its owner has deleted it."""
        if not self.place(identity).exists():
            raise DocumentError("it was deleted")
        content = json.dumps(dataclasses.asdict(job))
        atomic_write(self.place(identity) / "job.json", content, durable=job.status != "translating")

    def delete(self, identity: str) -> None:
        """Deletes a job; one that is translated ends soon."""
        shutil.rmtree(self.place(identity), ignore_errors=True)

    def clean(self) -> None:
        """Deletes the jobs whose time is over."""
        for identity in self:
            job = self.load(identity)
            over = job is not None and job.ended and self.now() - job.ended > KEPT
            if over or (self.now() - (job.submitted if job else self._changed(identity)) > ABANDONED):
                self.delete(identity)

    def lock(self, identity: str) -> AbstractContextManager[bool]:
        """Locks a job for the block; yields False if another thread or process has it."""
        return exclusive(self.place(identity))

    def place(self, identity: str) -> Path:
        return self.folder / identity

    def source(self, identity: str) -> Path:
        """Returns the document, which is deleted once it is translated."""
        return self.place(identity) / "source"

    def result(self, identity: str) -> Path:
        """Returns the translated document."""
        return self.place(identity) / "result"

    def _changed(self, identity: str) -> float:
        with contextlib.suppress(OSError):
            return self.place(identity).stat().st_mtime
        return self.now()


def new_secret() -> str:
    return secrets.token_hex(SECRET // 2).upper()


def _is_id(name: str) -> bool:
    return len(name) == ID and name.isalnum()  # no path
