"""The routes of the REST interface: jobs, their logs and changes; people; the service's own state."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from dragoman.services.jobs.bodies import JobName
from dragoman.services.jobs.http import streams
from dragoman.services.jobs.http.parts import Admin, Here, Id, Name, Scraper, Submitter, Viewer
from dragoman.services.jobs.http.problems import PROBLEMS
from dragoman.services.jobs.http.streams import event_stream, place_in
from dragoman.services.jobs.ledger.filters import ListQuery
from dragoman.services.jobs.routes import ROUTES
from dragoman.services.jobs.scheduling.why import Why
from dragoman.services.jobs.service import schemas
from dragoman.services.jobs.service.curves import read_curves, released, run_of
from dragoman.services.jobs.states import PRIORITIES
from dragoman.services.jobs.views import Job, JobHistory, columns, job_view
from dragoman.services.telemetry import FORMAT
from dragoman.services.version import version

router = APIRouter(responses=PROBLEMS)
state_router = APIRouter()
Handler = TypeVar("Handler", bound=Callable[..., Any])


def _answers(name: str, **more: Any) -> Callable[[Handler], Handler]:
    """Returns the decorator of the function that answers a route of the table."""
    return router.api_route(ROUTES[name].path, methods=[ROUTES[name].method], **more)


@_answers("plan")
def plan(here: Here, person: Submitter, body: schemas.PlanRequest) -> dict[str, Any]:
    """Returns the plan of a submission; nothing is queued."""
    return here.operations.plan(person, body)


# The most frequent requests use one thread; FastAPI takes another for the answer of a plain function.
@_answers("submit", status_code=201)
async def submit(here: Here, person: Submitter, body: schemas.Submission) -> Job:
    """Creates a job; it is planned, then it waits."""
    return job_view(await run_in_threadpool(here.operations.submit, person, body))


@_answers("jobs")
async def jobs(here: Here, person: Viewer, query: Annotated[ListQuery, Query()]) -> schemas.JobPage:
    """Returns the wanted jobs, one page at a time."""
    return await run_in_threadpool(here.operations.page, person, query)


@_answers("job")
def job(here: Here, person: Viewer, id: Id) -> schemas.JobDetail:
    """Returns a job, its attempts and every change of its state."""
    row = here.operations.job(person, id)
    detail: schemas.JobDetail = {
        **columns(row, JobHistory),  # type: ignore[typeddict-item]  # named by it
        "attempts": [schemas.AttemptView.model_validate(attempt) for attempt in here.ledger.attempts(row.id)],
        "changes": here.operations.changes(person, row.id),
    }
    detail["why"] = here.operations.wait_text(row.id, row.state, row.attempt)
    return detail


@_answers("why")
def why(here: Here, person: Viewer, id: Id) -> Why:
    """Returns what a job waits for, and who holds that."""
    return here.operations.why(person, id)


@_answers("curves")
def curves(here: Here, person: Viewer, id: Id) -> schemas.CurvesView:
    """Returns a training's curves (losses, learning rate, speed) and the version that its end released."""
    row = here.operations.job(person, id)
    run = run_of(row)
    return schemas.CurvesView(run=row.run, curves=read_curves(run), released=released(run))


@_answers("stop")
def stop(here: Here, person: Submitter, id: Id) -> Job:
    """Stops a job in order; a waiting one never starts."""
    return job_view(here.operations.stop(person, id))


@_answers("yield")
def make_room(here: Here, person: Submitter, id: Id) -> Job:
    """Asks a job to make room: it saves a checkpoint and waits again."""
    return job_view(here.operations.make_room(person, id))


@_answers("retry")
def retry(here: Here, person: Submitter, id: Id) -> Job:
    """Queues an ended job again; it continues from its newest checkpoint."""
    return job_view(here.operations.retry(person, id))


@_answers("priority")
def priority(here: Here, person: Submitter, id: Id, body: schemas.PriorityRequest) -> Job:
    """Sets a job's priority."""
    return job_view(here.operations.set_priority(person, id, PRIORITIES[body.priority]))


@_answers("after")
def after(here: Here, person: Submitter, id: Id, body: schemas.AfterRequest) -> Job:
    """Sets the jobs that must have succeeded before a job starts; it must not have started."""
    return job_view(here.operations.set_after(person, id, body.after))


@_answers("remove", status_code=204)
def remove(here: Here, person: Submitter, id: Id) -> None:
    """Removes an ended job with its logs; the record of changes keeps it."""
    here.operations.remove(person, id)


Answers = dict[int | str, dict[str, Any]]
STREAM: Answers = {200: {"content": {"text/event-stream": {}}, "description": "events, until the job ends"}}
TEXT: Answers = {200: {"content": {"text/plain": {}}, "description": "a piece of the log"}}


@_answers("log", responses=TEXT, response_class=Response)
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


@_answers("events", responses=STREAM, response_class=StreamingResponse)
def stream(
    here: Here,
    person: Viewer,
    request: Request,
    job: JobName | None = None,
    after: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
) -> StreamingResponse:
    """Streams changes as they happen; continues after `after` or the header Last-Event-ID."""
    if job is not None:
        job = here.operations.job(person, job).id
    text = request.headers.get("last-event-id", "")
    last = int(text) if text.isdecimal() and len(text) < 10 else after or 0
    return event_stream(streams.changes(here.ledger, last, job, person), here.access, person)


@_answers("log-events", responses=STREAM, response_class=StreamingResponse)
def log_stream(
    here: Here, person: Viewer, request: Request, id: Id, attempt: Annotated[int, Query(ge=0, le=10**6)] = 0
) -> StreamingResponse:
    """Streams the job's log; continues after the header Last-Event-ID."""
    job = here.operations.job(person, id).id
    start = place_in(request.headers.get("last-event-id", "")) or (attempt, 0)
    return event_stream(streams.logs(here.ledger, here.home, job, start), here.access, person)


@_answers("me")
def me(here: Here, person: Viewer) -> schemas.MeView:
    """Returns who asks, and their role."""
    return schemas.MeView(owner=person.owner, role=person.role, teams=sorted(person.teams))


@_answers("tokens")
def tokens(here: Here, person: Viewer) -> list[schemas.TokenView]:
    """Returns names, owners, roles and ends of tokens, never the tokens themselves; who is no admin sees their own."""
    owners = () if person.may("admin") else person.owners
    return [schemas.TokenView.model_validate(token) for token in here.access.tokens(*owners)]


@_answers("issue", status_code=201)
def issue(here: Here, person: Admin, body: schemas.TokenRequest) -> schemas.IssuedToken:
    """Issues a new token, which is shown only once."""
    return schemas.IssuedToken(token=here.access.issue(body.name, body.owner, body.role, person.owner, body.ends))


@_answers("rotate")
def rotate(here: Here, person: Admin, name: Name) -> schemas.IssuedToken:
    """Replaces a token by a new one, which is shown only once."""
    return schemas.IssuedToken(token=here.access.rotate(name, person.owner))


@_answers("revoke", status_code=204)
def revoke(here: Here, person: Admin, name: Name) -> None:
    """Revokes a token."""
    here.access.revoke(name, person.owner)


@_answers("quotas")
def all_quotas(here: Here, person: Viewer) -> list[schemas.QuotaView]:
    """Returns the quotas of owners; who is no admin sees their own."""
    quotas = sorted((owner, row) for owner, row in here.access.quotas().items() if person.sees(owner))
    return [schemas.QuotaView(owner=owner, **quota._asdict()) for owner, quota in quotas]


@_answers("set-quota", status_code=204)
def set_quota(here: Here, person: Admin, owner: Name, body: schemas.QuotaRequest) -> None:
    """Sets an owner's quota for all jobs together."""
    here.access.set_quota(owner, body.cpus, body.gpus, person.owner, body.jobs)


@state_router.get(ROUTES["status"].path, responses={503: PROBLEMS[503]})
def status(here: Here) -> schemas.StatusView:
    """Returns the service's health; needs no token and names nobody."""
    loop, trouble = here.loop, here.health.trouble()
    # a line of a log may name somebody
    children = {name: state.partition(":")[0] if here.guard.keys else state for name, state in here.children().items()}
    return schemas.StatusView(
        children=children,
        status="degraded" if trouble else "ok",
        trouble=trouble,
        version=version(),
        counts=here.ledger.counts(),
        nodes=list(loop.capacity.nodes) if loop.capacity else [],
        keys=here.guard.keys,
        pass_seconds=loop.scheduler.seconds,
    )


@state_router.get("/metrics", include_in_schema=False)
def metrics(here: Here, person: Scraper) -> Response:
    """Returns metrics for Prometheus, whose token has the role `metrics`; others see no owner but themselves."""
    return Response(here.loop.metrics.telemetry.text(person.sees), headers={"Content-Type": FORMAT})
