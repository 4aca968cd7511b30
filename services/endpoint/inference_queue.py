"""The queue of requests to one kind of model, with HTTP errors, and the model that answers now."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from starlette.exceptions import HTTPException

from dragoman.services.endpoint.batcher import Batcher, EngineStoppedError
from dragoman.services.endpoint.keys import NOBODY, Key
from dragoman.services.models.origin import Origin

logger = logging.getLogger(__name__)


class Answering(Protocol):
    """The information that any loaded model gives."""

    @property
    def origin(self) -> Origin: ...

    def facts(self) -> dict[str, Any]:
        """Returns the facts for /status beside the origin."""


Model = TypeVar("Model", bound=Answering)
Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass
class InferenceQueue(Generic[Model, Item, Answer]):
    """`current` returns the model that answers now, `trouble` the reason why a newer one does not."""

    what: str  # the kind of model, in messages
    refusal: str  # begins error messages: "Cannot translate text"
    current: Callable[[], Model | None]
    batcher: Batcher[Model, Item, Answer]
    trouble: Callable[[], str | None] = lambda: None
    timeout: float = 30.0  # seconds that a request may take; what is not decoded by then is dropped

    def model(self) -> Model:
        """Returns the model that answers now.

        Raises HTTPException: 503, none is loaded or the batcher's thread has ended.
        """
        model = self.current()
        if model is None:
            raise HTTPException(503, f"No {self.what} is loaded yet: try again later", {"Retry-After": "5"})
        if not self.batcher.alive:
            raise HTTPException(503, f"{self.refusal}: its thread has ended, the server must be started again")
        return model

    async def ask(self, model: Model, items: Sequence[Item], nbest: int = 1, key: Key = NOBODY) -> list[Answer]:
        """Returns one answer per item, from `model`, in the turn of the client that has the key, by its priority.

        Raises HTTPException: 400 more items or tokens than allowed, 429 the queue is full, 503 the thread ended or a
        timeout.
        """
        try:
            async with asyncio.timeout(self.timeout):
                return await self.ask_in_time(model, items, nbest, key)
        except TimeoutError:
            raise self.no_answer() from None

    async def ask_in_time(self, model: Model, items: Sequence[Item], nbest: int = 1, key: Key = NOBODY) -> list[Answer]:
        """Returns the same for a caller that has a deadline of its own. Raises as `ask`, without the timeout."""
        if len(items) > self.batcher.capacity:
            raise HTTPException(
                400, f"Invalid request: {len(items)} sentences exceed the limit ({self.batcher.capacity})"
            )
        try:
            return await self.batcher.ask(model, items, nbest, key.priority, key.client)
        except EngineStoppedError as problem:
            raise HTTPException(503, f"{self.refusal}: {problem}") from None

    def no_answer(self) -> HTTPException:
        """Returns the error of a request that took too long."""
        return HTTPException(503, f"{self.refusal}: no answer in {self.timeout:g} s", {"Retry-After": "5"})

    @property
    def status(self) -> str:
        """Returns `ok` only while requests are answered."""
        return "loading" if self.current() is None else "ok" if self.batcher.alive else "stopped"

    def facts(self) -> dict[str, Any]:
        """Returns the facts for /status about the model and its queue."""
        model = self.current()
        return {
            "status": self.status,
            "model": None if model is None else {**model.origin.facts(), **model.facts()},
            "reload_error": self.trouble(),
            "queued": self.batcher.queued,
        }
