"""Plans and jobs: submitted, listed, shown, changed, removed."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from dragoman.services.jobs.http.parts import Here, Id, Submitter, Viewer
from dragoman.services.jobs.http.problems import PROBLEMS
from dragoman.services.jobs.service import schemas
from dragoman.services.jobs.service.curves import read_curves, released, run_of
from dragoman.services.jobs.service.report import report
from dragoman.services.jobs.service.usage import read_use
from dragoman.services.jobs.states import PRIORITIES
from dragoman.services.jobs.views import Job, JobHistory, columns, job_view
from dragoman.services.telemetry.telemetry import current
from dragoman.services.telemetry.traceparent import parse

PAGE: dict[int | str, dict[str, Any]] = {200: {"content": {"text/html": {}}, "description": "the page"}}
router = APIRouter(prefix="/v1", responses=PROBLEMS)


@router.post("/plans")
def plan(here: Here, person: Submitter, body: schemas.PlanRequest) -> dict[str, Any]:
    """Returns the plan of a submission; nothing is queued."""
    return here.operations.plan(person, body)


# The most frequent requests use one thread; FastAPI takes another for the answer of a plain function.
@router.post("/jobs", status_code=201)
async def submit(here: Here, request: Request, person: Submitter, body: schemas.Submission) -> Job:
    """Creates a job; it is planned, then it waits. The header `traceparent` is kept for its attempts."""
    place = current() or parse(request.headers.get("traceparent"))
    job = await run_in_threadpool(here.operations.submit, person, body, str(place) if place else None)
    return job_view(job)


@router.post("/arrays", status_code=201)
def submit_array(here: Here, request: Request, person: Submitter, body: schemas.ArrayRequest) -> list[Job]:
    """Creates a job for each of `runs`, all with a tag of their own; the same key again creates none."""
    place = current() or parse(request.headers.get("traceparent"))
    return [job_view(job) for job in here.operations.submit_array(person, body, str(place) if place else None)]


@router.get("/jobs")
async def jobs(here: Here, person: Viewer, asked: Annotated[schemas.ListQuery, Query()]) -> schemas.JobPage:
    """Returns the wanted jobs, one page at a time."""
    return await run_in_threadpool(here.operations.page, person, asked)


@router.get("/jobs/{id}")
def job(here: Here, person: Viewer, id: Id) -> schemas.JobDetail:
    """Returns a job, its attempts and every change of its state."""
    found = here.operations.job(person, id)
    detail: schemas.JobDetail = {
        **columns(found, JobHistory),  # type: ignore[typeddict-item]  # named by it
        "notices": [schemas.NoticeView.of(one) for one in here.ledger.notices(id)],
        "attempts": [schemas.AttemptView.model_validate(one) for one in here.ledger.attempts(id)],
        "changes": here.operations.changes(person, id),
    }
    detail["why"] = here.operations.waits_for([detail]).get(id, "")
    return detail


@router.get("/jobs/{id}/why")
def why(here: Here, person: Viewer, id: Id) -> schemas.WhyView:
    """Returns what a job waits for, who holds that, and the range of its expected start."""
    return here.operations.why(person, id)


@router.get("/jobs/{id}/curves")
def curves(here: Here, person: Viewer, id: Id) -> schemas.CurvesView:
    """Returns a training's curves (losses, learning rate, speed) and the version that its end released."""
    found = here.operations.job(person, id)
    run = run_of(found)
    return schemas.CurvesView(run=found.run, curves=read_curves(run), released=released(run))


@router.get("/jobs/{id}/usage")
def usage(here: Here, person: Viewer, id: Id, attempt: Annotated[int, Query(ge=0, le=10**6)] = 0) -> schemas.UsageView:
    """Returns what an attempt (0: the newest) used of processors, memory, GPUs, disk and network, as last values and
    curves."""
    found = here.operations.job(person, id)
    number = attempt or found.attempt
    return schemas.UsageView.of(number, read_use(here.home, found.id, number))


@router.get("/jobs/{id}/report", responses=PAGE, response_class=Response)
def page(here: Here, person: Viewer, id: Id) -> Response:
    """Returns a report of the job: one page that needs no other files."""
    found = here.operations.job(person, id)
    text = report(found, here.ledger.attempts(id), here.operations.changes(person, id), here.home)
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
    return Response(text, headers={"Content-Security-Policy": policy}, media_type="text/html; charset=utf-8")


@router.post("/jobs/{id}/stop")
def stop(here: Here, person: Submitter, id: Id) -> Job:
    """Stops a job in order; a waiting one never starts."""
    return job_view(here.operations.stop(person, id))


@router.post("/jobs/{id}/yield")
def make_room(here: Here, person: Submitter, id: Id) -> Job:
    """Asks a job to make room: it saves a checkpoint and waits again."""
    return job_view(here.operations.make_room(person, id))


@router.post("/jobs/{id}/retry")
def retry(here: Here, person: Submitter, id: Id) -> Job:
    """Queues an ended job again; it continues from its newest checkpoint."""
    return job_view(here.operations.retry(person, id))


@router.post("/jobs/{id}/priority")
def priority(here: Here, person: Submitter, id: Id, body: schemas.PriorityRequest) -> Job:
    """Sets a job's priority."""
    return job_view(here.operations.set_priority(person, id, PRIORITIES[body.priority]))


@router.post("/jobs/{id}/after")
def after(here: Here, person: Submitter, id: Id, body: schemas.AfterRequest) -> Job:
    """Sets the jobs that must have succeeded before a job starts; it must not have started."""
    return job_view(here.operations.set_after(person, id, body.after))


@router.delete("/jobs/{id}", status_code=204)
def remove(here: Here, person: Submitter, id: Id) -> None:
    """Removes an ended job; the audit trail keeps it."""
    here.operations.remove(person, id)
