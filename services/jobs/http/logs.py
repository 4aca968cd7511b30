"""The logs of jobs, and streams of changes and logs."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from dragoman.services.jobs.http import events
from dragoman.services.jobs.http.parts import Here, Id, Viewer
from dragoman.services.jobs.http.problems import PROBLEMS
from dragoman.services.jobs.http.streams import while_admitted
from dragoman.services.jobs.service import schemas

Answers = dict[int | str, dict[str, Any]]
STREAM: Answers = {200: {"content": {"text/event-stream": {}}, "description": "events, until the job ends"}}
TEXT: Answers = {200: {"content": {"text/plain": {}}, "description": "a piece of the log"}}
router = APIRouter(prefix="/v1", responses=PROBLEMS)


@router.get("/jobs/{id}/logs", responses=TEXT, response_class=Response)
def logs(
    here: Here,
    person: Viewer,
    id: Id,
    attempt: Annotated[int, Query(ge=0, le=10**6)] = 0,
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=1 << 20)] = 1 << 18,
) -> Response:
    """Returns a piece of an attempt's log (0: the newest attempt); X-Next-Offset says where the next begins."""
    text, number = here.operations.log(person, id, attempt, offset, limit)
    headers = {"X-Next-Offset": str(offset + len(text)), "X-Attempt": str(number)}
    return Response(text, headers=headers, media_type="text/plain; charset=utf-8")


@router.get("/events", responses=STREAM, response_class=StreamingResponse)
def stream(
    here: Here,
    person: Viewer,
    request: Request,
    job: schemas.JobId | None = None,
    after: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
) -> StreamingResponse:
    """Streams changes as they happen; continues after `after` or the header Last-Event-ID."""
    if job is not None:
        here.operations.job(person, job)
    text = request.headers.get("last-event-id", "")
    last = int(text) if text.isdecimal() and len(text) < 10 else after or 0
    source = while_admitted(events.changes(here.ledger, last, job, person), here.access, person)
    return StreamingResponse(source, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


@router.get("/jobs/{id}/log-events", responses=STREAM, response_class=StreamingResponse)
def log_stream(
    here: Here, person: Viewer, request: Request, id: Id, attempt: Annotated[int, Query(ge=0, le=10**6)] = 0
) -> StreamingResponse:
    """Streams the job's log; continues after the header Last-Event-ID."""
    here.operations.job(person, id)
    number, _, offset = request.headers.get("last-event-id", "").partition(":")
    known = number.isdecimal() and offset.isdecimal() and len(number) < 8 and len(offset) < 16
    start = (int(number), int(offset)) if known else (attempt, 0)
    source = while_admitted(events.logs(here.ledger, here.home, id, start), here.access, person)
    return StreamingResponse(source, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
