"""Where requests are handed in: the model of one kind that answers now, and the queue before it, in HTTP's terms."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from starlette.exceptions import HTTPException

from services.endpoint.batcher import Batcher, EngineStoppedError, QueueFullError
from services.models.origin import Origin

logger = logging.getLogger(__name__)


class Answering(Protocol):
    """What any loaded model says of itself."""

    @property
    def origin(self) -> Origin: ...

    def facts(self) -> dict[str, Any]:
        """What /status says of it beside its origin."""


Model = TypeVar("Model", bound=Answering)
Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass
class InferenceQueue(Generic[Model, Item, Answer]):
    """`current` gives the model that answers now, `trouble` why a newer one does not."""

    what: str  # the kind of model, in messages
    refusal: str  # opens the messages of what fails: "Cannot translate text"
    current: Callable[[], Model | None]
    batcher: Batcher[Model, Item, Answer]
    trouble: Callable[[], str | None] = lambda: None
    timeout: float = 30.0  # seconds that a request may wait for its answer

    def model(self) -> Model:
        """The model that answers now.

        Raises:
            HTTPException: 503, none is loaded or the thread that answers has ended.
        """
        model = self.current()
        if model is None:
            raise HTTPException(503, f"No {self.what} is loaded yet: try again later", {"Retry-After": "5"})
        if not self.batcher.alive:
            raise HTTPException(503, f"{self.refusal}: its thread has ended, the server must be started again")
        return model

    async def ask(self, model: Model, items: Sequence[Item], nbest: int = 1) -> list[Answer]:
        """An answer an item, from `model`.

        Raises:
            HTTPException: 400 more items than the queue can ever hold, 429 it is full, 503 it is over or out of time.
        """
        if len(items) > self.batcher.capacity:
            raise HTTPException(
                400, f"Invalid request: {len(items)} sentences exceed the limit ({self.batcher.capacity})"
            )
        try:
            future = asyncio.wrap_future(self.batcher.submit(model, items, nbest))
            return await asyncio.wait_for(future, self.timeout)
        except QueueFullError as problem:
            raise HTTPException(429, f"Slowdown: {problem}", {"Retry-After": str(problem.retry_after)}) from None
        except EngineStoppedError as problem:
            raise HTTPException(503, f"{self.refusal}: {problem}") from None
        except TimeoutError:
            raise HTTPException(503, f"{self.refusal}: no answer in {self.timeout:g} s", {"Retry-After": "5"}) from None

    @property
    def status(self) -> str:
        """`ok` only while requests are answered."""
        return "loading" if self.current() is None else "ok" if self.batcher.alive else "stopped"

    def facts(self) -> dict[str, Any]:
        """What /status says of the model and of what waits for it."""
        model = self.current()
        return {
            "status": self.status,
            "model": None if model is None else {**model.origin.facts(), **model.facts()},
            "reload_error": self.trouble(),
            "queued": self.batcher.queued,
        }
