"""The queue of translations for who has time: a request that waits until there is room, in pieces."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dragoman.model.inference.translator import Translation
from dragoman.services.endpoint.batcher import Batcher, QueueFullError
from dragoman.services.endpoint.fair_queue import tokens_of
from dragoman.services.models.loaded_model import LoadedModel

TOKENS = 1024  # of a piece, about
LINES = 64  # of a piece, at most


@dataclass(frozen=True)
class PatientQueue:
    """Asks the batcher for a document: no deadline, and a full queue is waited for."""

    batcher: Batcher[LoadedModel, str, Translation]
    priority: int
    client: str = ""  # whose turn it takes

    async def ask(self, model: LoadedModel, lines: Sequence[str], nbest: int) -> list[Translation]:
        """Returns the translations of lines, however long the queue is.

        Raises:
            EngineStoppedError: the server stops.
            TooManyTokensError: a line is longer than any request may be.
        """
        answers: list[Translation] = []
        for piece in pieces(lines, min(LINES, self.batcher.capacity)):
            answers += await self._ask_piece(model, piece, nbest)
        return answers

    async def _ask_piece(self, model: LoadedModel, lines: list[str], nbest: int) -> list[Translation]:
        while True:
            try:
                return await self.batcher.ask(model, lines, nbest, self.priority, self.client)
            except QueueFullError as problem:
                await asyncio.sleep(problem.retry_after)


def pieces(lines: Sequence[str], most: int) -> Iterator[list[str]]:
    """Yields the lines in groups of about TOKENS tokens and at most `most` lines."""
    group: list[str] = []
    tokens = 0
    for line in lines:
        more = tokens_of(line)
        if group and (tokens + more > TOKENS or len(group) == most):
            yield group
            group, tokens = [], 0
        group.append(line)
        tokens += more
    if group:
        yield group
