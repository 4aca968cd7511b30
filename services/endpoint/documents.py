"""Documents that are translated as jobs, kept in a folder: they survive a restart, and processes share them.

A job is a folder with its state (job.json), the document, and in the end the translation. Whoever holds the folder's
lock translates it; one whose process ended is begun again. An hour after its end, or once it is downloaded, it is
deleted. Its sentences wait in the queue of all requests, behind those of people.
"""

import contextlib
import dataclasses
import hmac
import json
import logging
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal, NamedTuple

from starlette.exceptions import HTTPException

from model.errors import UserError
from model.files import atomic_write, exclusive
from services.endpoint.batcher import EngineStoppedError, QueueFullError, TooManyTokensError
from services.endpoint.endpoint import Endpoint
from services.endpoint.fair_queue import PRIORITIES, tokens_of
from services.endpoint.keys import ASKING, Key
from services.endpoint.translation import Question
from services.models.loaded_model import LoadedModel
from services.texts.documents.document import Document, DocumentError, Passage
from services.texts.documents.kinds import KINDS, ending_of, read_document
from services.texts.glossary import Glossary
from services.texts.prepare import Prepared, pending, prepare, spoken_text
from services.texts.stand_ins import stand_ins_of

Status = Literal["queued", "translating", "done", "error"]
KEPT = 3600.0  # seconds after the end
ABANDONED = 24 * 3600.0  # seconds after the upload
EVERY = 2.0  # seconds between two looks for jobs of other processes
SAID = 1.0  # seconds between two notes of the progress
THREADS = 2
TOKENS = 1024  # of a piece that waits in the queue, about
BEHIND = 4  # steps of priority behind a request
MOST_CHARACTERS = 1_000_000
SAMPLE = 2000  # characters that tell a document's language
logger = logging.getLogger(__name__)


class Handle(NamedTuple):
    """A job's id, and the secret that its owner shows."""

    id: str
    key: str


class State(NamedTuple):
    """A job's progress."""

    status: Status
    seconds_left: int | None  # while it is translated
    characters: int  # billed
    error: str
    name: str  # of the translated file


class Finished(NamedTuple):
    """A translated document."""

    name: str
    content: bytes
    media_type: str


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
    priority: int = 0
    characters: int = 0
    submitted: float = 0.0
    status: Status = "queued"
    began: float = 0.0
    ended: float = 0.0
    share: float = 0.0  # that is translated
    error: str = ""

    @property
    def translated_name(self) -> str:
        """Returns the name of the translated file."""
        path = PurePath(self.name)
        return f"{path.stem}_{self.target}{path.suffix}"


class StoppingError(Exception):
    """The server stops: the job is begun again by the next one."""


@dataclass
class Documents:
    """All documents of the endpoint; without a folder none is translated."""

    endpoint: Endpoint
    folder: Path | None
    now: Callable[[], float] = time.time
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _wake: threading.Event = field(default_factory=threading.Event)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    @property
    def endings(self) -> list[str]:
        """Returns the endings of names that are accepted."""
        return list(KINDS) if self.folder is not None else []

    def submit(self, name: str, content: bytes, question: Question) -> Handle:
        """Stores a document to be translated; `question` has its languages, version and glossary, and no texts.

        The request's key pays for the characters; it gets them back if there is no translation.

        Raises:
            HTTPException: 400 the document cannot be read or its languages are not served, 403 none is translated here,
                413 it is too long, 429 too many are kept; or the key's limits are reached.
        """
        folder = self._folder()
        name = PurePath(name.replace("\\", "/")).name
        if len(content) > (most := self.endpoint.limits.document):
            raise HTTPException(413, f"Invalid request: the document exceeds {most} bytes")
        try:
            characters = sum(len(passage.text) for passage in read_document(name, content).passages)
        except UserError as problem:
            raise HTTPException(400, f"Invalid request: {problem}") from None
        if characters > MOST_CHARACTERS:
            raise HTTPException(413, f"Invalid request: the document exceeds {MOST_CHARACTERS} characters")
        self._check_languages(question)
        self.clean()
        key = ASKING.get()
        glossary = question.options.glossary
        job = Job(
            secrets.token_hex(16),
            name,
            question.source,
            question.target,
            question.version,
            dict(glossary.terms) if glossary else None,
            key.digest,
            key.priority,
            characters,
            self.now(),
        )
        with self._lock:
            if sum(1 for _ in self._ids()) >= self.endpoint.limits.documents:
                raise HTTPException(
                    429, "Slowdown: too many documents are kept: try again in 60 s", {"Retry-After": "60"}
                )
            self.endpoint.keys.charge(key, characters, (question.source or question.target, question.target))
            identity = secrets.token_hex(16)
            place = folder / identity
            place.mkdir(mode=0o700, parents=True)
            atomic_write(place / "source", content)
            self._save(identity, job)
        self._wake.set()
        return Handle(identity, job.secret)

    def state(self, identity: str, key: str) -> State:
        """Returns how far a job is.

        Raises:
            HTTPException: 404, there is none of this id and key.
        """
        job = self._find(identity, key)
        left = None
        if job.status == "translating" and job.share:
            left = max(1, round((self.now() - job.began) * (1 - job.share) / job.share))
        return State(job.status, left, job.characters, job.error, job.translated_name)

    def result(self, identity: str, key: str, keep: bool = False) -> Finished:
        """Returns the translated document, and deletes it unless `keep`.

        Raises:
            HTTPException: 404 there is none of this id and key, 503 it is not translated yet, 400 it never will be.
        """
        job = self._find(identity, key)
        if job.status == "error":
            raise HTTPException(400, f"Cannot translate document: {job.error}")
        if job.status != "done":
            raise HTTPException(503, "The document is not translated yet", {"Retry-After": "5"})
        try:
            content = (self._folder() / identity / "result").read_bytes()
        except OSError:  # deleted since
            raise HTTPException(404, "There is no such document") from None
        if not keep:
            self.delete(identity)
        return Finished(job.translated_name, content, KINDS[ending_of(job.name)][2])

    def delete(self, identity: str) -> None:
        """Deletes a job; one that is translated ends soon."""
        shutil.rmtree(self._folder() / identity, ignore_errors=True)

    def clean(self) -> None:
        """Deletes the jobs whose time is over."""
        for identity in self._ids():
            job = self._load(identity)
            over = job is not None and job.ended and self.now() - job.ended > KEPT
            if over or (self.now() - (job.submitted if job else self._changed(identity)) > ABANDONED):
                self.delete(identity)

    def start(self) -> None:
        """Starts the threads that translate."""
        if self.folder is not None and self.endpoint.translations is not None:
            self._threads = [threading.Thread(target=self._run, name="documents", daemon=True) for _ in range(THREADS)]
            for thread in self._threads:
                thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """Ends the threads; what they were at is begun again by the next server."""
        self._stop.set()
        self._wake.set()
        for thread in self._threads:
            thread.join(timeout)

    def work(self) -> bool:
        """Translates one job that waits; returns False if there is none."""
        for identity in sorted(self._ids(), key=self._submitted):
            job = self._load(identity)
            if job is None or job.ended:
                continue
            with contextlib.suppress(OSError), exclusive(self._folder() / identity) as got:
                job = self._load(identity) if got else None  # another process may have ended it
                if job is not None and not job.ended:
                    self._translate_job(identity, job)
                    return True
        return False

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.clean()
                if self.work():
                    continue
            except StoppingError:
                return
            except Exception:
                logger.exception("a document could not be worked on")
            self._wake.wait(EVERY)
            self._wake.clear()

    def _translate_job(self, identity: str, job: Job) -> None:
        job.status, job.began, job.share = "translating", self.now(), 0.0
        self._save(identity, job)
        place = self._folder() / identity
        try:
            document = read_document(job.name, (place / "source").read_bytes())
            texts = self._translate(identity, job, document)
            atomic_write(place / "result", document.write(texts, job.target))
            job.status, job.share = "done", 1.0
        except StoppingError:
            raise
        except Exception as problem:
            if not place.exists():  # deleted by its owner
                return
            known = isinstance(problem, UserError | HTTPException | TooManyTokensError)
            if not known:
                logger.exception("a document could not be translated")
            job.status = "error"
            said = problem.detail if isinstance(problem, HTTPException) else str(problem)
            job.error = said if known else "an internal error"
            self.endpoint.keys.give_back(Key(digest=job.digest), job.characters)
        job.ended = self.now()
        (place / "source").unlink(missing_ok=True)
        self._save(identity, job)

    def _translate(self, identity: str, job: Job, document: Document) -> list[str]:
        """Returns the texts of a document's passages."""
        source = job.source or self._detect(job, document.passages)
        models = self.endpoint.served()
        chosen = models.choose(source, job.target, job.version)
        texts = [passage.text for passage in document.passages]
        glossary = Glossary(job.terms) if job.terms else None
        for number, one in enumerate(chosen):
            served = models.load(one)
            prepared = [
                prepare(
                    text,
                    dataclasses.replace(passage.options, glossary=glossary),
                    served.source,
                    self.endpoint.longest,
                    served.target,
                )
                for text, passage in zip(texts, document.passages, strict=True)
            ]
            for share in self._ask(prepared, served, max(PRIORITIES[0], job.priority - BEHIND)):
                job.share = (number + share) / len(chosen)
                self._save(identity, job)
            texts = [text.rebuild().text for text in prepared]
        self.endpoint.metrics.characters.labels("in").inc(job.characters)
        self.endpoint.metrics.characters.labels("out").inc(sum(map(len, texts)))
        return texts

    def _ask(self, texts: Sequence[Prepared], served: LoadedModel, priority: int) -> Iterator[float]:
        """Translates the texts piece by piece; yields the share that is done, now and then."""
        said = time.monotonic()
        while not all(text.finished for text in texts):
            if any(text.masked for text in texts):
                known = stand_ins_of(served)
                for text in texts:
                    text.stand_ins = known
            for asked in pending(texts):
                model = served
                if asked.aligned:
                    with contextlib.suppress(UserError):  # no attention: places are guessed
                        model = served.aligning
                for piece in pieces(asked.parts, lambda part: tokens_of(part[1].line.text)):
                    one = dataclasses.replace(asked, parts=piece)
                    answers = self._answer(model, one.lines, priority)
                    if wrong := next((answer.error for answer in answers if answer.error), None):
                        raise HTTPException(500, f"Cannot translate text: {wrong}")
                    one.take(answers)
                    if time.monotonic() - said >= SAID:
                        said = time.monotonic()
                        every = [part for text in texts for state in text.states for part in state.parts]
                        yield sum(part.target is not None for part in every) / max(1, len(every))

    def _answer(self, model: LoadedModel, lines: list[str], priority: int) -> list[Any]:
        """Returns the translations of lines, however long the queue is.

        Raises:
            StoppingError: the server stops.
        """
        batcher = self.endpoint.queue().batcher
        while not self._stop.is_set():
            try:
                future: Future[list[Any]] = batcher.submit(model, lines, 1, priority)
            except QueueFullError as problem:
                self._stop.wait(problem.retry_after)
                continue
            except EngineStoppedError:
                break
            while not self._stop.is_set():
                try:
                    return future.result(0.5)
                except TimeoutError:
                    continue
                except EngineStoppedError:
                    raise StoppingError from None
            future.cancel()
        raise StoppingError

    def _check_languages(self, question: Question) -> None:
        models = self.endpoint.served()
        try:
            if question.source is not None:
                models.choose(question.source, question.target, question.version)
            elif not models.sources(question.target):
                raise UserError(f"{question.target} is not supported")
        except UserError as problem:
            raise HTTPException(400, str(problem)) from None

    def _detect(self, job: Job, passages: Sequence[Passage]) -> str:
        """Returns the language of a document's beginning."""
        sample, sources = "", self.endpoint.served().sources(job.target)
        for passage in passages:
            sample += spoken_text(passage.text[:SAMPLE], passage.options) + "\n"
            if len(sample) > SAMPLE:
                break
        found = self.endpoint.detector.detect(sample, sources)
        return found.language or sources[0]

    def _folder(self) -> Path:
        if self.folder is None:
            raise HTTPException(403, "Files translation are disabled on this server.")
        return self.folder

    def _ids(self) -> Iterator[str]:
        with contextlib.suppress(FileNotFoundError):
            for path in self._folder().iterdir():
                if len(path.name) == 32 and path.name.isalnum():
                    yield path.name

    def _changed(self, identity: str) -> float:
        with contextlib.suppress(OSError):
            return (self._folder() / identity).stat().st_mtime
        return self.now()

    def _submitted(self, identity: str) -> float:
        job = self._load(identity)
        return job.submitted if job else 0.0

    def _find(self, identity: str, key: str) -> Job:
        known = len(identity) == 32 and identity.isalnum()  # no path
        job = self._load(identity) if known else None
        if job is None or not hmac.compare_digest(job.secret.encode(), key.encode()):
            raise HTTPException(404, "There is no such document")
        return job

    def _load(self, identity: str) -> Job | None:
        try:
            return Job(**json.loads((self._folder() / identity / "job.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):  # deleted, or only just begun
            return None

    def _save(self, identity: str, job: Job) -> None:
        place = self._folder() / identity
        if not place.exists():
            raise DocumentError("it was deleted")
        atomic_write(place / "job.json", json.dumps(dataclasses.asdict(job)), durable=job.status != "translating")


def pieces(parts: Sequence[Any], cost: Callable[[Any], int]) -> Iterator[list[Any]]:
    """Yields the parts in groups of about TOKENS tokens."""
    group: list[Any] = []
    tokens = 0
    for part in parts:
        if part[1].line is None:
            continue
        more = cost(part)
        if group and (tokens + more > TOKENS or len(group) == 64):
            yield group
            group, tokens = [], 0
        group.append(part)
        tokens += more
    if group:
        yield group
