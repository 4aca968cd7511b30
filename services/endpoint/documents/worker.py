"""The thread that translates documents: an event loop with a few jobs at a time, as the requests are translated.

A job whose process ended is begun again. Its sentences wait in the queue of all requests, behind those of people.
"""

import asyncio
import contextlib
import dataclasses
import logging
import threading
from asyncio import AbstractEventLoop, Event, Task
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_write
from dragoman.services.endpoint.batcher import EngineStoppedError, TooManyTokensError
from dragoman.services.endpoint.documents.jobs import Job, Jobs
from dragoman.services.endpoint.documents.patient_queue import PatientQueue
from dragoman.services.endpoint.documents.reading import Reading
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.fair_queue import PRIORITIES
from dragoman.services.endpoint.keys import Key
from dragoman.services.endpoint.route_translator import RouteTranslator
from dragoman.services.subprocesses.pool import PoolClosedError
from dragoman.services.texts.documents.document import DocumentError, Passage
from dragoman.services.texts.glossary import Glossary
from dragoman.services.texts.known import Known
from dragoman.services.texts.prepare import spoken_text

AT_ONCE = 2  # jobs
ATTEMPTS = 3  # at a document that the server does not survive
EVERY = 2.0  # seconds between two looks for jobs of other processes
BEHIND = 4  # steps of priority behind a request
GROUP = 8000  # characters of the passages that are translated together, about
SAMPLE = 2000  # characters that tell a document's language
SAME = "Source and target language are equal."  # DeepL's words
KNOWN = (UserError, HTTPException, TooManyTokensError)  # their messages are for the owner
logger = logging.getLogger(__name__)


@dataclass
class DocumentWorker:
    """Translates the jobs of a folder by the endpoint's models."""

    endpoint: Endpoint
    jobs: Jobs
    reading: Reading
    _thread: threading.Thread | None = None
    _loop: AbstractEventLoop | None = None
    _all: Task[None] | None = None
    _ready: threading.Event = field(default_factory=threading.Event)
    _woken: Event = field(default_factory=Event)

    def start(self) -> None:
        """Starts the thread."""
        self._thread = threading.Thread(target=self._run, name="documents", daemon=True)
        self._thread.start()
        self._ready.wait()

    def stop(self, timeout: float) -> None:
        """Ends the thread; what it is at stays as it is."""
        if self._thread is None:
            return
        if self._loop is not None and self._all is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._all.cancel)
        self._thread.join(timeout)

    def wake(self) -> None:
        """Makes the thread look for jobs now."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)

    async def work(self) -> bool:
        """Translates one job that waits; returns False if there is none."""
        for identity in self.jobs.waiting():
            with contextlib.suppress(OSError), self.jobs.lock(identity) as got:
                job = self.jobs.load(identity) if got else None  # another process may have ended it
                if job is not None and not job.ended:
                    await self._work_at(identity, job)
                    return True
        return False

    def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(self._work_always())

    async def _work_always(self) -> None:
        self._loop, self._all = asyncio.get_running_loop(), asyncio.current_task()
        self._ready.set()
        await asyncio.gather(*(self._take_turns() for _ in range(AT_ONCE)))

    async def _take_turns(self) -> None:
        while True:
            try:
                self.jobs.clean()
                if self.endpoint.queue().status == "ok" and await self.work():
                    continue
            except (EngineStoppedError, PoolClosedError):  # the server stops
                return
            except Exception:
                logger.exception("a document could not be worked on")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), EVERY)
            self._woken.clear()

    async def _work_at(self, identity: str, job: Job) -> None:
        job.status, job.began, job.share = "translating", self.jobs.now(), 0.0
        job.attempts += 1
        self.jobs.save(identity, job)
        try:
            if job.attempts > ATTEMPTS:
                raise DocumentError(f"{job.name}: the server has ended {ATTEMPTS} times while it translated it")
            content, client = self.jobs.source(identity).read_bytes(), job.digest or identity
            passages, job.notes = await asyncio.to_thread(self.reading.read, job.name, content, client)
            texts = await self._translate(identity, job, passages)
            written = await asyncio.to_thread(self.reading.write, job.name, content, texts, job.target, client)
            atomic_write(self.jobs.result(identity), written)
            job.status, job.share = "done", 1.0
        except (EngineStoppedError, PoolClosedError, asyncio.CancelledError):  # the server stops
            job.attempts -= 1
            with contextlib.suppress(DocumentError):
                self.jobs.save(identity, job)
            raise
        except Exception as problem:
            if not self.jobs.place(identity).exists():  # deleted by its owner
                return
            known = isinstance(problem, KNOWN)
            if not known:
                logger.exception("a document could not be translated")
            said = problem.detail if isinstance(problem, HTTPException) else str(problem)
            job.status, job.error = "error", said if known else "an internal error"
            self.endpoint.keys.give_back(_payer(job), job.characters)
        job.ended = self.jobs.now()
        self.jobs.source(identity).unlink(missing_ok=True)
        self.jobs.save(identity, job)

    async def _translate(self, identity: str, job: Job, passages: Sequence[Passage]) -> list[str]:
        """Returns the texts of a document's passages."""
        source = job.source
        if source is None:
            source = await asyncio.to_thread(self._detect, job, passages)
        if self.endpoint.served().is_one(source, job.target):
            raise UserError(SAME)
        self.endpoint.keys.allow(_payer(job), [source])
        route = await self.endpoint.find(source, job.target, job.version)
        # not in the turn of the key's own requests, which would wait for them
        queue = PatientQueue(
            self.endpoint.queue().batcher, max(PRIORITIES[0], job.priority - BEHIND), f"documents {job.digest}"
        )
        translator = RouteTranslator(queue.ask, self.endpoint.metrics, self.endpoint.longest, self.endpoint.models)
        glossary = Glossary(job.terms) if job.terms else None
        known = None if route.via else await asyncio.to_thread(self._known, job, source)  # not the middle language's
        texts: list[str] = []
        broken = 0
        for group in groups(passages):
            options = [dataclasses.replace(passage.options, glossary=glossary, known=known) for passage in group]
            answers = await translator.translate(route, [passage.text for passage in group], options)
            texts += [answer.text for answer in answers]
            broken += sum(not answer.report.get("complete", True) for answer in answers)
            job.share = len(texts) / len(passages)
            self.jobs.save(identity, job)
        if broken:
            job.notes = [*job.notes, f"passages that lost something, or stay as they were: {broken} of {len(texts)}"]
        self.endpoint.metrics.translated(job.characters, sum(map(len, texts)))
        return texts

    def _known(self, job: Job, source: str) -> Known | None:
        """Returns the known translations that a document's owner may use."""
        self.endpoint.memory.look()
        return self.endpoint.memory.all(source, job.target, job.owner)

    def _detect(self, job: Job, passages: Sequence[Passage]) -> str:
        """Returns the language of a document's beginning."""
        sample, sources = "", self.endpoint.served().sources(job.target)
        for passage in passages:
            sample += spoken_text(passage.text[:SAMPLE], passage.options) + "\n"
            if len(sample) > SAMPLE:
                break
        found = self.endpoint.detector.detect(sample, sources)
        return found.language or sources[0]


def _payer(job: Job) -> Key:
    """Returns the key that pays for a job."""
    return Key(digest=job.digest, languages=None if job.languages is None else tuple(job.languages))


def groups(passages: Iterable[Passage]) -> Iterator[list[Passage]]:
    """Yields the passages in groups of about GROUP characters."""
    group: list[Passage] = []
    size = 0
    for passage in passages:
        if group and size + len(passage.text) > GROUP:
            yield group
            group, size = [], 0
        group.append(passage)
        size += len(passage.text)
    if group:
        yield group
