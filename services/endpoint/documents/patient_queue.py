"""The queue of translations for who has time: a request that waits until there is room, in pieces."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence

from dragoman.model.inference.translator import Translation
from dragoman.services.endpoint.batcher import Batcher, QueueFullError
from dragoman.services.endpoint.fair_queue import tokens_of
from dragoman.services.models.loaded_model import LoadedModel

TOKENS = 1024  # of a piece, about
LINES = 64  # of a piece, at most


async def ask_patiently(
    batcher: Batcher[LoadedModel, str, Translation],
    priority: int,
    client: str,
    model: LoadedModel,
    lines: Sequence[str],
    nbest: int,
) -> list[Translation]:
    """Returns the translations of lines, in the turns of `client`: without a deadline, and after a full queue.

    Raises:
        EngineStoppedError: the server stops.
        TooManyTokensError: a line is longer than any request may be.
    """
    answers: list[Translation] = []
    waiting = deque(pieces(lines, min(LINES, batcher.capacity)))
    while waiting:
        try:
            answers += await batcher.ask(model, waiting[0], nbest, priority, client)
        except QueueFullError as problem:
            await asyncio.sleep(problem.retry_after)
        else:
            waiting.popleft()
    return answers


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
