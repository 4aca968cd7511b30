"""The routes of a job's page, its log and its actions, and of the form that submits one.

/jobs/ID (log, log.txt, stop, yield, retry, priority, after, remove)   /submit
Those of the list and of people are in the modules of these names.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any, cast
from urllib.parse import urlencode

from fastapi import FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, StreamingResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from dragoman.model.errors import ServiceError, UserError
from dragoman.services.http.pages import KeptStaticFiles
from dragoman.services.jobs.bodies import NAME
from dragoman.services.jobs.http.streams import place_in
from dragoman.services.jobs.pages import jobpage, listing, live, people, submitting
from dragoman.services.jobs.pages.site import (
    FOLDER,
    HEADERS,
    Page,
    Parts,
    Question,
    Refusal,
    Submitter,
    SubmitterForm,
    Viewer,
    marked,
    page_router,
    problem_page,
    refusal_of,
)
from dragoman.services.jobs.planning.refusals import VERBS
from dragoman.services.jobs.service import schemas
from dragoman.services.jobs.states import ENDED, QUEUED

Handler = Callable[[Request, Exception], Awaitable[Response]]
router = page_router()


def add_pages(app: FastAPI) -> None:
    """Adds the pages to an application whose state has their context."""
    for module in (people, listing):
        app.include_router(module.router)
    app.include_router(router)
    app.mount("/static", KeptStaticFiles(FOLDER / "static"))
    handler = cast("Handler", app.exception_handlers[StarletteHTTPException])

    @app.exception_handler(StarletteHTTPException)
    async def nothing(request: Request, problem: StarletteHTTPException) -> Response:
        """Shows a page for an unknown address to browsers; programs get JSON."""
        asks = problem.status_code == 404 and "text/html" in request.headers.get("accept", "")
        if not asks or request.url.path.startswith(("/v1/", "/live/", "/static/")):
            return await handler(request, problem)
        return await run_in_threadpool(problem_page, request, Refusal(404, "There is no such page."))


Id = Annotated[str, Path(max_length=40, pattern=NAME)]
AttemptNumber = Annotated[int, Query(ge=0, le=10**6)]  # 0: the newest
Place = Annotated[int | None, Query(ge=0, le=2**53)]
PARTS = ("head", "attempts", "curves", "links", "changes")


def _parts(page: Page, name: str) -> Parts:
    content = jobpage.overview(page, name)
    return {part: page.render(f"_job_{part}.html", **content) for part in PARTS}


@router.get("/jobs/{id}")
def job(page: Viewer, id: Id) -> Response:
    job = page.job(id)
    log = jobpage.log_piece(page.site, job, job.attempt, None)
    follow = urlencode({"after": f"{page.operations.ledger.newest}:{max(1, job.attempt)}:{log.end}"})
    return page.show(
        "job.html",
        job=job,
        title=jobpage.title(job),
        log=log,
        parts=marked(_parts(page, id)),
        before=submitting.jobs_before(page) if job.state in QUEUED else [],
        done=page.done(jobpage.DONE),
        stream="" if job.state in ENDED else f"/live/jobs/{id}?{follow}",
    )


@router.get("/live/jobs/{id}")
def follow(page: Viewer, id: Id, after: str = "") -> StreamingResponse:
    page.job(id)
    start = place_in(page.request.headers.get("last-event-id") or after) or (1, 0)
    return page.stream(live.job(page.operations.ledger, page.site.home, id, start, partial(_parts, page, id)))


@router.get("/jobs/{id}/log")
def log(page: Viewer, id: Id, attempt: AttemptNumber = 0, before: Place = None, after: Place = None) -> Response:
    job = page.job(id)
    piece = jobpage.log_piece(page.site, job, attempt or job.attempt, before, after)
    return JSONResponse(vars(piece), headers=HEADERS)


@router.get("/jobs/{id}/log.txt")
def whole_log(page: Viewer, id: Id, attempt: AttemptNumber = 0) -> Response:
    job = page.job(id)
    number = attempt or job.attempt
    headers = {**HEADERS, "Content-Disposition": f'inline; filename="{job.id}-a{number}.log"'}
    lines = jobpage.whole_log(page.site, job, number)
    return StreamingResponse(lines, media_type="text/plain; charset=utf-8", headers=headers)


ASKS = {
    "stop": Question(
        "Stop this job?",
        "Stop it",
        "It ends in order, a training with a checkpoint, and is not started again unless you say so.",
    ),
    "remove": Question(
        "Remove this job?", "Remove it", "Its row, its attempts and its page go; the record of changes remembers it."
    ),
}


@router.get("/jobs/{id}/{action}")
def ask(page: Submitter, id: Id, action: str) -> Response:
    if action not in ASKS:
        raise HTTPException(404, "There is no such page.")
    job = page.job(id)
    about = f"{job.verb} of {job.owner}, is {job.state}."
    return page.ask(ASKS[action], jobpage.title(job), about, ("/", "Jobs"), (f"/jobs/{id}", id))


@router.post("/jobs/{id}/{action}")
def act(page: SubmitterForm, id: Id, action: str) -> Response:
    person, operations = page.person, page.operations
    does: dict[str, Callable[[], object]] = {
        "stop": lambda: operations.stop(person, id),
        "yield": lambda: operations.make_room(person, id),
        "retry": lambda: operations.retry(person, id),
        "remove": lambda: operations.remove(person, id),
        "priority": lambda: operations.set_priority(person, id, jobpage.chosen_priority(page)),
        "after": lambda: operations.set_after(person, id, submitting.items(page.text("after"))),
    }
    if action not in does:
        raise HTTPException(404, "There is no such page.")
    does[action]()
    return RedirectResponse("/?removed" if action == "remove" else f"/jobs/{id}?done={action}", 303)


def _show_form(
    page: Page,
    filled: submitting.Filled,
    plan: Any = None,
    refusal: Refusal | None = None,
    overrides: Sequence[str] = (),
) -> Response:
    problem, status = (refusal.text, refusal.status) if refusal else ("", 200)
    values = {"plan": plan, "problem": problem, "overrides": overrides}
    if page.request.headers.get("x-part") == "plan":
        return HTMLResponse(page.render("_plan.html", **values), status, headers=HEADERS)
    offered = {"verbs": VERBS, "groups": submitting.offered_choices(), "before": submitting.jobs_before(page)}
    return page.show("submit.html", status, **values, **offered, filled=filled)


@router.get("/submit")
def empty_form(page: Submitter, like: str = "") -> Response:
    if like:
        filled = submitting.repeat_job(page.site, page.job(like))
    else:
        filled = submitting.read_form(page.request.query_params)
    return _show_form(page, filled)


@router.post("/submit")
def hand_in(page: SubmitterForm) -> Response:
    filled = submitting.read_form(page.sent)
    try:
        body = submitting.submission(filled)
        if page.text("do") == "submit":
            job = page.operations.submit(page.person, body)
            return RedirectResponse(f"/jobs/{job.id}?done=submit", 303)
        request = schemas.PlanRequest(verb=body.verb, overrides=body.overrides, owner=body.owner)
        return _show_form(page, filled, page.operations.plan(page.person, request), overrides=body.overrides)
    except (UserError, ServiceError, HTTPException, KeyError) as wrong:
        return _show_form(page, filled, refusal=refusal_of(wrong))
