"""W3C Trace Context: the header `traceparent`, and the variable TRACEPARENT for child processes."""

import hashlib
import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from dragoman.model.errors import UserError

VARIABLE = "TRACEPARENT"
FORM = re.compile(r"00-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})")


@dataclass(frozen=True)
class TraceParent:
    """A position in a trace; the next span is its child."""

    trace: str  # 32 hexadecimal digits
    span: str  # 16
    flags: str = "01"  # sampled

    def __str__(self) -> str:
        return f"00-{self.trace}-{self.span}-{self.flags}"

    def child(self, name: str) -> "TraceParent":
        """Returns the position of the child `name`: the same whoever computes it, and whenever."""
        return TraceParent(self.trace, hashlib.sha256(f"{self.trace}/{name}".encode()).hexdigest()[:16], self.flags)


def parse(text: str | None) -> TraceParent | None:
    """Parses a traceparent; None for another version than 00, or for all zeros."""
    found = FORM.fullmatch((text or "").strip())
    if found is None or not int(found["trace"], 16) or not int(found["span"], 16):
        return None
    return TraceParent(found["trace"], found["span"], found["flags"])


def read_environment() -> TraceParent | None:
    """Returns the position under which this process was started."""
    return parse(os.environ.get(VARIABLE))


def check_address(traces: str) -> str:
    """Raises UserError unless it is an http:// or https:// address."""
    parts = urlsplit(traces)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(
            f"serve.traces or service.traces is {traces!r}: an address of OTLP over HTTP is expected, such as http://collector:4318"
        )
    return traces.rstrip("/")
