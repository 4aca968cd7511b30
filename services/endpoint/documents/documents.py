"""The documents of the endpoint: each is translated within its request, and kept until it is downloaded."""

import asyncio
import base64
import contextlib
import logging
import re
import secrets
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.exceptions import HTTPException

from dragoman.model.errors import ServiceError, UserError
from dragoman.model.files import atomic_write
from dragoman.model.inference.losses import Losses
from dragoman.services.endpoint.documents.worker import COMPUTING, plain_answer
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.keys import Key
from dragoman.services.endpoint.route_translator import RouteTranslator, models_of
from dragoman.services.models.catalogue import NotServedError, Route
from dragoman.services.subprocesses.pool import Child, Pool, TooLongError
from dragoman.services.texts.documents.kinds import KINDS, ending_of
from dragoman.services.texts.translating import Question

MODULE = "dragoman.services.endpoint.documents.worker"
AT_ONCE = 2  # documents in translation, each with a process of its own
BEHIND = 4  # steps of priority behind other requests
KEPT = 3600.0  # seconds that a translation waits for its download
MOST_CHARACTERS = 1_000_000
SECRET = re.compile("[0-9A-F]{64}")
DISABLED = "Files translation are disabled on this server."  # LibreTranslate's words
SAME = "Source and target language are equal."  # DeepL's words
logger = logging.getLogger(__name__)


class Translated(NamedTuple):
    """A translated document: where it is downloaded, and what its owner has to be told."""

    address: str
    notes: list[str]


class Finished(NamedTuple):
    """A translated document."""

    name: str
    content: bytes
    media_type: str


@dataclass
class Documents:
    """All documents of the endpoint; `folder` keeps the translations. Without a folder none is translated."""

    endpoint: Endpoint
    folder: Path | None
    pool: Pool = field(default_factory=lambda: Pool(MODULE, AT_ONCE, COMPUTING))
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    @property
    def endings(self) -> list[str]:
        """Returns the endings of names that are accepted."""
        return list(KINDS) if self.folder is not None else []

    async def translate(self, name: str, content: bytes, source: str | None, target: str, key: Key) -> Translated:
        """Translates a document. Its key pays for the characters, unless there is no translation.

        Raises HTTPException: 400 the document cannot be read or its languages are not served, 403 none is translated
        here, 413 it is too large, 503 there was no answer in time; or the key's limits are reached.
        """
        name = PurePath(name.replace("\\", "/")).name
        try:
            folder = self._check(name, content, source, target)
            async with asyncio.timeout(self.endpoint.config.document_timeout), self._turns:
                answer = await self._ask(name, content, source, target, key)
        except TimeoutError:
            why = f"Cannot translate document: no answer in {self.endpoint.config.document_timeout:g} s"
            raise HTTPException(503, why, {"Retry-After": "60"}) from None
        except TooLongError as limit:
            raise HTTPException(400, f"Cannot translate document: it takes more than {limit}") from None
        except (UserError, ServiceError) as problem:
            raise HTTPException(
                400 if isinstance(problem, UserError) else 503, f"Cannot translate document: {problem}"
            ) from None
        secret = secrets.token_hex(32).upper()
        try:
            await asyncio.to_thread(atomic_write, folder / f"{secret}{ending_of(name)}", answer["content"])
        except OSError as problem:
            logger.error("a document could not be stored: %s", problem)
            raise HTTPException(503, "The document cannot be stored: try again later", {"Retry-After": "60"}) from None
        path = PurePath(name)
        return Translated(f"{secret}.{quote(f'{path.stem}_{target}{path.suffix}', safe='')}", answer["notes"])

    def result(self, address: str) -> Finished:
        """Returns a translated document. Raises HTTPException: 404, there is none."""
        secret, _, name = address.partition(".")
        try:
            ending = ending_of(name)
            if self.folder is None or not SECRET.fullmatch(secret):
                raise FileNotFoundError
            content = (self.folder / f"{secret}{ending}").read_bytes()
        except (UserError, FileNotFoundError):
            raise HTTPException(404, "There is no such document") from None
        return Finished(name, content, KINDS[ending][2])

    def close(self) -> None:
        """Ends the processes, whatever they are at."""
        self.pool.close()

    def _check(self, name: str, content: bytes, source: str | None, target: str) -> Path:
        """Refuses what is known not to be translated; returns the folder. Raises as `translate`."""
        models, limits = self.endpoint.served(), self.endpoint.limits
        if self.folder is None:
            raise HTTPException(403, DISABLED)
        if len(content) > limits.document:
            raise HTTPException(413, f"Invalid request: the document exceeds {limits.document} bytes")
        ending_of(name)
        if source is not None and models.view.is_one(source, target):
            raise HTTPException(400, SAME)
        try:
            if source is not None:
                models.choose(source, target)
            elif not models.view.sources(target):
                raise NotServedError(f"{target} is not supported")
        except NotServedError as problem:
            raise HTTPException(400, str(problem)) from None
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_old(self.folder, limits.documents)
        return self.folder

    async def _ask(self, name: str, content: bytes, source: str | None, target: str, key: Key) -> dict[str, Any]:
        """Returns the answer of the process that translates a document, which ends with the request."""
        loop, replies = asyncio.get_running_loop(), _Replies(self.endpoint, source, target, key)
        question = {"name": name, "content": base64.b64encode(content).decode(), "language": target}
        children: list[Child] = []
        replying: list[Future[dict[str, Any]]] = []

        def reply(asked: dict[str, Any]) -> dict[str, Any]:
            replying[:] = [asyncio.run_coroutine_threadsafe(replies.reply(asked), loop)]
            return replying[0].result()

        try:
            answer = await asyncio.to_thread(self.pool.ask, {**question, "most": MOST_CHARACTERS}, reply, children)
            if "refused" in answer:
                raise UserError(answer["refused"])
            if "content" not in answer:
                raise ServiceError(f"the process that reads documents failed: {answer.get('failed')}")
        except BaseException:
            for future in replying:
                future.cancel()
            for child in children:
                child.end()
            self.endpoint.keys.give_back(key, replies.paid)
            raise
        self.endpoint.metrics.characters["in"] += replies.paid
        self.endpoint.metrics.characters["out"] += answer["characters"]
        return {**answer, "content": base64.b64decode(answer["content"])}


@dataclass
class _Replies:
    """Answers what the process that translates a document asks for; `worker.py` has the questions."""

    endpoint: Endpoint
    source: str | None
    target: str
    key: Key
    paid: int = 0  # characters
    route: Route = field(default_factory=lambda: Route(()))

    async def reply(self, question: dict[str, Any]) -> dict[str, Any]:
        """Returns what one question asks for."""
        if "sample" in question:
            return await self._begin(question["characters"], question["sample"])
        if "losses" in question:
            self.endpoint.metrics.lose([Losses(**question["losses"])])
            return {}
        # not in the turn of the key's own requests, which would wait for them
        client = f"documents {self.key.client}"
        ask = partial(self.endpoint.queue.ask_in_pieces, client=client, priority=-BEHIND)
        translator = RouteTranslator(ask, self.endpoint.metrics, self.endpoint.config.longest)
        return plain_answer(await translator.answer(self.route, Question(**question)))

    async def _begin(self, characters: int, sample: str) -> dict[str, Any]:
        """Lets the key pay, and returns the facts of the models for a document that begins so."""
        endpoint = self.endpoint
        endpoint.keys.charge(self.key, characters)
        self.paid = characters
        source = self.source
        if source is None:
            sources = endpoint.served().view.sources(self.target)
            source = (await asyncio.to_thread(endpoint.detector.detect, sample, sources)).language or sources[0]
        if endpoint.served().view.is_one(source, self.target):
            raise HTTPException(400, SAME)
        self.route = endpoint.find(source, self.target)
        glossary = endpoint.terms.joined(self.route.source, self.route.target, None) if endpoint.terms else None
        models = [vars(model) for model in models_of(self.route)]
        terms = dict(glossary.terms) if glossary else {}
        return {"models": models, "longest": endpoint.config.longest, "terms": terms}


def _remove_old(folder: Path, most: int) -> None:
    """Removes translations that nobody has downloaded: those of before `KEPT`, and the oldest of more than `most`
    with the one to come, so that nobody keeps others from theirs."""
    kept: list[tuple[float, Path]] = []
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            kept.append((path.stat().st_mtime, path))
    kept.sort(reverse=True)
    for number, (written, path) in enumerate(kept):
        if number >= most - 1 or time.time() - written > KEPT:
            path.unlink(missing_ok=True)
