"""Work on long texts beside the event loop, so that it holds up no other request."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

LONG = 1000  # characters
Result = TypeVar("Result")


async def aside(texts: Sequence[str], work: Callable[[], Result]) -> Result:
    """Returns the result of `work` on these texts, done on another thread if they are long."""
    if sum(map(len, texts)) <= LONG:
        return work()
    return await asyncio.to_thread(work)
