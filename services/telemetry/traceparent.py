"""W3C Trace Context: the header `traceparent`, and the variable TRACEPARENT for child processes."""

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

VARIABLE = "TRACEPARENT"


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
    """Parses a traceparent by OpenTelemetry's rules; None for what is none."""
    if not text:
        return None
    from opentelemetry.trace import get_current_span  # here, for commands without a trace start sooner
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return of_context(
        get_current_span(TraceContextTextMapPropagator().extract({"traceparent": text})).get_span_context()
    )


def of_context(place: "SpanContext") -> TraceParent | None:
    """Returns the position of a span; None if there is none."""
    if not place.is_valid:
        return None
    return TraceParent(f"{place.trace_id:032x}", f"{place.span_id:016x}", f"{int(place.trace_flags):02x}")


def read_environment() -> TraceParent | None:
    """Returns the position under which this process was started."""
    return parse(os.environ.get(VARIABLE))
