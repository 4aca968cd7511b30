"""The thread that translates documents: an event loop with a few jobs at a time, as the requests are translated.

A job whose process ended is begun again. Its sentences wait in the queue of all requests, behind those of people.
"""

import asyncio
import contextlib
import logging
import threading
from asyncio import AbstractEventLoop, Event, Task
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_write
from dragoman.model.inference.losses import Losses
from dragoman.services.endpoint.batcher import EngineStoppedError
from dragoman.services.endpoint.documents.jobs import Job, Jobs
from dragoman.services.endpoint.documents.patient_queue import ask_patiently
from dragoman.services.endpoint.documents.reading import AT_ONCE, GoneError, Reading
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.fair_queue import PRIORITIES
from dragoman.services.endpoint.keys import Key
from dragoman.services.endpoint.route_translator import RouteTranslator, models_of
from dragoman.services.models.catalogue import Route
from dragoman.services.subprocesses.pool import PoolClosedError
from dragoman.services.texts.documents.document import DocumentError
from dragoman.services.texts.known import KnownTranslations

ATTEMPTS = 3  # at a document that the server does not survive
EVERY = 2.0  # seconds between two looks for jobs of other processes
BEHIND = 4  # steps of priority behind a request
SAME = "Source and target language are equal."  # DeepL's words
KNOWN = (UserError, HTTPException)  # their messages are for the owner
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
                raise DocumentError(f"{job.name}: the server or its process has ended {ATTEMPTS} times over it")
            content, client = self.jobs.source(identity).read_bytes(), job.digest or identity
            written = await self._translate(identity, job, content, client)
            atomic_write(self.jobs.result(identity), written)
            job.status, job.share = "done", 1.0
        except (EngineStoppedError, PoolClosedError, asyncio.CancelledError):  # the server stops
            job.attempts -= 1
            with contextlib.suppress(DocumentError):
                self.jobs.save(identity, job)
            raise
        except GoneError:  # begun again, as after the end of a server
            logger.warning("the process of a document has ended, attempt %d of %d", job.attempts, ATTEMPTS)
            return
        except Exception as problem:
            if not self.jobs.place(identity).exists():  # deleted by its owner
                return
            is_expected = isinstance(problem, KNOWN)
            if not is_expected:
                logger.exception("a document could not be translated")
            said = problem.detail if isinstance(problem, HTTPException) else str(problem)
            job.status, job.error = "error", said if is_expected else "an internal error"
            self.endpoint.keys.give_back(_payer(job), job.characters)
        job.ended = self.jobs.now()
        self.jobs.source(identity).unlink(missing_ok=True)
        self.jobs.save(identity, job)

    async def _translate(self, identity: str, job: Job, content: bytes, client: str) -> bytes:
        """Returns the translated document, which another process reads, prepares and writes."""
        # not in the turn of the key's own requests, which would wait for them
        owner, priority = f"documents {job.digest}", max(PRIORITIES[0], job.priority - BEHIND)
        ask = partial(ask_patiently, self.endpoint.queue().batcher, priority, owner)
        translator = RouteTranslator(ask, self.endpoint.metrics, self.endpoint.config.longest, self.endpoint.models)
        reply = _Replies(self, identity, job, translator).reply
        translated = await self.reading.translate(job.name, content, job.terms, job.target, client, reply)
        job.notes = translated.notes
        self.endpoint.metrics.characters["in"] += job.characters
        self.endpoint.metrics.characters["out"] += translated.characters
        return translated.content


@dataclass
class _Replies:
    """Answers what the process that prepares a document asks for."""

    worker: DocumentWorker
    identity: str
    job: Job
    translator: RouteTranslator
    route: Route = field(default_factory=lambda: Route(()))
    known: KnownTranslations | None = None

    async def reply(self, question: dict[str, Any]) -> dict[str, Any]:
        """Returns what one question asks for; `reading_worker.py` has them all."""
        if "lines" in question:
            return await self.translator.reply(self.route, question)
        if "sample" in question:
            return await self._route(question["sample"])
        if "share" in question:
            self.worker.endpoint.metrics.lose([Losses(**question["losses"])], [question["lost"]])
            self.job.share = question["share"]
            self.worker.jobs.save(self.identity, self.job)
        elif self.known is not None:
            exact = "exact" in question
            find = self.known.exact if exact else self.known.similar
            match = await asyncio.to_thread(find, question["exact" if exact else "similar"])
            return {"match": match and list(match)}
        return {}

    async def _route(self, sample: str) -> dict[str, Any]:
        """Returns the facts of the models for a document that begins so."""
        endpoint, job = self.worker.endpoint, self.job
        source = job.source
        if source is None:
            sources = endpoint.served().view.sources(job.target)
            source = (await asyncio.to_thread(endpoint.detector.detect, sample, sources)).language or sources[0]
        if endpoint.served().view.is_one(source, job.target):
            raise UserError(SAME)
        endpoint.keys.allow(_payer(job), [source])
        self.route = await endpoint.find(source, job.target, job.version)
        if endpoint.memory is not None and not self.route.via:  # not the middle language's
            await asyncio.to_thread(endpoint.memory.look)
            self.known = endpoint.memory.all(source, job.target, job.owner)
        models = [vars(model) for model in models_of(self.route)]
        return {"models": models, "longest": endpoint.config.longest, "known": self.known is not None}


def _payer(job: Job) -> Key:
    return Key(digest=job.digest, languages=None if job.languages is None else tuple(job.languages))
