"""The body of a request, with a limit of its size and a deadline.

Without them a body of any size would fill memory, and a client that sends one byte per minute would hold a connection.
"""

from starlette.exceptions import HTTPException
from starlette.types import Receive

CLOSING = {"Connection": "close"}  # the rest of a refused body is not read


async def read_body(receive: Receive, limit: int) -> bytes | None:
    """Returns the whole body; None if the client left before its end."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise HTTPException(413, f"Invalid request: the body exceeds {limit} bytes", CLOSING)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def too_late(patience: float) -> HTTPException:
    """Returns the error of a body that did not come in time."""
    return HTTPException(408, f"Invalid request: the body did not come in {patience:g} s", CLOSING)
