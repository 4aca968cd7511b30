"""The documents of the endpoint: taken, asked for, given out. A thread translates them (worker.py)."""

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import NamedTuple

from starlette.exceptions import HTTPException

from dragoman.model.errors import UserError
from dragoman.services.endpoint.documents.jobs import Handle, Job, Jobs, Status, new_secret
from dragoman.services.endpoint.documents.worker import SAME, DocumentWorker
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.translation import Question
from dragoman.services.repeating import SteadyClock
from dragoman.services.texts.documents.kinds import KINDS, ending_of

MOST_CHARACTERS = 1_000_000
logger = logging.getLogger(__name__)
DISABLED = "Files translation are disabled on this server."  # LibreTranslate's words


class State(NamedTuple):
    """A job's progress."""

    status: Status
    seconds_left: int | None  # while it is translated
    characters: int  # billed
    error: str
    name: str  # of the translated file
    notes: list[str]  # what its owner has to be told


class Finished(NamedTuple):
    """A translated document."""

    name: str
    content: bytes
    media_type: str


@dataclass
class Documents:
    """All documents of the endpoint; without a folder none is translated."""

    endpoint: Endpoint
    folder: Path | None
    now: Callable[[], float] = field(default_factory=SteadyClock)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def endings(self) -> list[str]:
        """Returns the endings of names that are accepted."""
        return list(KINDS) if self.folder is not None else []

    @cached_property
    def jobs(self) -> Jobs:
        """Returns the jobs. Raises HTTPException: 403, this server translates no documents."""
        if self.folder is None:
            raise HTTPException(403, DISABLED)
        return Jobs(self.folder, self.now)

    @cached_property
    def worker(self) -> DocumentWorker:
        """Returns the thread that translates. Raises as `jobs`."""
        return DocumentWorker(self.endpoint, self.jobs, self.endpoint.reading)

    def submit(self, name: str, content: bytes, question: Question) -> Handle:
        """Stores a document to be translated; `question` has its languages, version and glossary, and no texts.

        The question's key pays for the characters; it gets them back if there is no translation. An hour after its end,
        or once it is downloaded, the document is deleted.

        Raises HTTPException: 400 the document cannot be read or its languages are not served, 403 none is translated
        here, 413 it is too long, 429 too many are kept, 503 it cannot be stored; or the key's limits are reached.
        """
        jobs, limits = self.jobs, self.endpoint.limits
        name = PurePath(name.replace("\\", "/")).name
        if len(content) > limits.document:
            raise HTTPException(413, f"Invalid request: the document exceeds {limits.document} bytes")
        try:
            ending_of(name)
            characters = self.endpoint.reading.count(name, content, MOST_CHARACTERS, question.key.client)
        except UserError as problem:
            raise HTTPException(400, f"Invalid file: {problem}") from None
        if characters > MOST_CHARACTERS:
            raise HTTPException(413, f"Invalid request: the document exceeds {MOST_CHARACTERS} characters")
        self._check_languages(question)
        jobs.clean()
        key = question.key
        glossary = question.options.glossary
        job = Job(
            secret=new_secret(),
            name=name,
            source=question.source,
            target=question.target,
            version=question.version,
            terms=dict(glossary.terms) if glossary else None,
            digest=key.digest,
            owner=key.name,
            languages=None if key.languages is None else list(key.languages),
            priority=key.priority,
            characters=characters,
            submitted=self.now(),
        )
        with self._lock:
            if sum(1 for _ in jobs) >= limits.documents:
                message = "Slowdown: too many documents are kept: try again in 60 s"
                raise HTTPException(429, message, {"Retry-After": "60"})
            self.endpoint.keys.charge(key, characters, (question.source or question.target, question.target))
            try:
                handle = jobs.add(job, content)
            except OSError as problem:
                self.endpoint.keys.give_back(key, characters)
                logger.error("a document could not be stored: %s", problem)
                raise HTTPException(
                    503, "The document cannot be stored: try again later", {"Retry-After": "60"}
                ) from None
        self.worker.wake()
        return handle

    def state(self, identity: str, key: str) -> State:
        """Returns how far a job is. Raises HTTPException: 404, there is none of this id and key."""
        job = self.jobs.find(identity, key)
        left = None
        if job.status == "translating":  # at first: as long again as it has taken
            left = max(1, round((self.now() - job.began) * (1 - job.share) / (job.share or 1)))
        return State(job.status, left, job.characters, job.error, job.translated_name, job.notes)

    def result(self, identity: str, key: str, keep: bool = False) -> Finished:
        """Returns the translated document, and deletes it unless `keep`.

        Raises HTTPException: 404 there is none of this id and key, 503 it is not translated yet, 400 it never will be.
        """
        job = self.jobs.find(identity, key)
        if job.status == "error":
            raise HTTPException(400, f"Cannot translate document: {job.error}")
        if job.status != "done":
            raise HTTPException(503, "The document is not translated yet", {"Retry-After": "5"})
        try:
            content = self.jobs.result(identity).read_bytes()
        except OSError:  # deleted since
            raise HTTPException(404, "There is no such document") from None
        if not keep:
            self.jobs.delete(identity)
        return Finished(job.translated_name, content, KINDS[ending_of(job.name)][2])

    def start(self) -> None:
        """Starts the thread that translates."""
        if self.folder is not None and self.endpoint.translations is not None:
            self.worker.start()

    def stop(self, timeout: float = 10.0) -> None:
        """Ends the thread; what it was at is begun again by the next server."""
        self.endpoint.reading.pool.close()  # or the thread would wait for a document that takes its time
        if self.folder is not None:
            self.worker.stop(timeout)

    def work(self) -> bool:
        """Translates one job that waits; returns False if there is none."""
        return asyncio.run(self.worker.work())

    def _check_languages(self, question: Question) -> None:
        models = self.endpoint.served()
        if question.source is not None and models.view.is_one(question.source, question.target):
            raise HTTPException(400, SAME)
        try:
            if question.source is not None:
                models.choose(question.source, question.target, question.version)
            elif not models.view.sources(question.target):
                raise UserError(f"{question.target} is not supported")
        except UserError as problem:
            raise HTTPException(400, str(problem)) from None
