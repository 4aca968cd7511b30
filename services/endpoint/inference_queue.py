"""The queue of lines to the models, with HTTP errors, and whether a model answers now."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException

from dragoman.model.inference.translator import Translation
from dragoman.services.endpoint.batcher import Batcher, EngineStoppedError, QueueFullError
from dragoman.services.endpoint.fair_queue import split_lines
from dragoman.services.models.loaded_model import LoadedModel

REFUSAL = "Cannot translate text"  # begins messages about a failure


@dataclass
class InferenceQueue:
    """`current` returns a model that answers now, `trouble` the reason why a newer one does not."""

    batcher: Batcher[LoadedModel, str, Translation]
    current: Callable[[], LoadedModel | None]
    trouble: Callable[[], str | None] = lambda: None
    timeout: float = 30.0  # seconds that a request may take; what is not decoded by then is dropped

    def check(self) -> None:
        """Raises HTTPException: 503, no model is loaded or the batcher's thread has ended."""
        if self.current() is None:
            raise HTTPException(503, "No model is loaded yet: try again later", {"Retry-After": "5"})
        if not self.batcher.alive:
            raise HTTPException(503, f"{REFUSAL}: its thread has ended, the server must be started again")

    async def ask(
        self, model: LoadedModel, lines: Sequence[str], nbest: int = 1, client: str = ""
    ) -> list[Translation]:
        """Returns one translation per line, from `model`, in the turn of the client.

        Raises HTTPException: 400 more lines or tokens than allowed, 429 the queue is full, 503 the thread has ended.
        """
        most = self.batcher.capacity
        if len(lines) > most:
            counts = f"{len(lines):,} sentences are too many; at most {most:,} are allowed"
            raise HTTPException(400, f"Invalid request: {counts}")
        try:
            return await self.batcher.ask(model, lines, nbest, client=client)
        except EngineStoppedError as problem:
            raise HTTPException(503, f"{REFUSAL}: {problem}") from None

    async def ask_in_pieces(
        self, model: LoadedModel, lines: Sequence[str], nbest: int, client: str, priority: int
    ) -> list[Translation]:
        """Returns the same for a document: in pieces, each of which waits until there is room. Raises as `ask`."""
        answers: list[Translation] = []
        for piece in split_lines(lines, self.batcher.capacity):
            while True:
                try:
                    answers += await self.batcher.ask(model, piece, nbest, priority, client)
                    break
                except QueueFullError as problem:
                    await asyncio.sleep(problem.retry_after)
                except EngineStoppedError as problem:
                    raise HTTPException(503, f"{REFUSAL}: {problem}") from None
        return answers

    def no_answer(self) -> HTTPException:
        """Returns the error of a request that took too long."""
        return HTTPException(503, f"{REFUSAL}: no answer in {self.timeout:g} s", {"Retry-After": "5"})

    def facts(self) -> dict[str, Any]:
        """Returns the facts for /status about the model and its queue."""
        model = self.current()
        return {
            "status": "loading" if model is None else "ok" if self.batcher.alive else "stopped",
            "model": None if model is None else {**model.origin.facts(), **model.facts()},
            "reload_error": self.trouble(),
            "queued": self.batcher.queued,
        }
