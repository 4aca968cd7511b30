"""Spans whose id is handed out before they are made, such as an attempt's, which its processes name as parent."""

from collections.abc import Mapping
from contextvars import ContextVar

from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)

from dragoman.services.telemetry.traceparent import TraceParent

_next: ContextVar[str | None] = ContextVar("span", default=None)  # the id of the next span


class FixedIds(IdGenerator):
    """Random ids, except for a span with a reserved one."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()

    def generate_trace_id(self) -> int:
        return self._random.generate_trace_id()

    def generate_span_id(self) -> int:
        promised = _next.get()
        return self._random.generate_span_id() if promised is None else int(promised, 16)

    def is_trace_id_random(self) -> bool:
        return True


def tell(
    tracer: Tracer,
    name: str,
    place: TraceParent,
    parent: TraceParent,
    began: float,
    ended: float,
    failed: bool,
    attributes: Mapping[str, str | int | float],
) -> None:
    """Makes the span at `place`, a child of `parent`, for finished work. Times are seconds since 1970."""
    context = SpanContext(int(parent.trace, 16), int(parent.span, 16), True, TraceFlags(int(parent.flags, 16)))
    token = _next.set(place.span)
    try:
        span = tracer.start_span(
            name,
            context=set_span_in_context(NonRecordingSpan(context)),
            kind=SpanKind.INTERNAL,
            attributes=dict(attributes),
            start_time=round(began * 1e9),
        )
    finally:
        _next.reset(token)
    if failed:
        span.set_status(Status(StatusCode.ERROR))
    span.end(round(ended * 1e9))
