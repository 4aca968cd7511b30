"""The routes of the pages, each a few lines.

/jobs/ID (log, log.txt, stop, yield, retry, priority, after, remove, report)   /submit   /cluster
/login   /logout   /tokens   /audit   /projects   /live/... (server-sent events)   /static/...
Those of the list, shards, models and people are in the modules of these names.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, cast
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, StreamingResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from dragoman.model.errors import ServiceError, UserError
from dragoman.services.http.static_files import KeptStaticFiles
from dragoman.services.jobs.bodies import NAME
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.tables import Schedule
from dragoman.services.jobs.pages import cluster, jobpage, live, people, submitting
from dragoman.services.jobs.pages.listing import add_list
from dragoman.services.jobs.pages.models import add_models
from dragoman.services.jobs.pages.shards import add_shards
from dragoman.services.jobs.pages.site import (
    FOLDER,
    HEADERS,
    PageContext,
    Refusal,
    Visitor,
    page_route,
    part,
    problem_page,
    refusal_of,
)
from dragoman.services.jobs.planning.refusals import VERBS
from dragoman.services.jobs.service import schemas
from dragoman.services.jobs.service.report import report
from dragoman.services.jobs.states import ENDED, PRIORITIES, QUEUED

Number = Annotated[int, Path(ge=1, le=2**31 - 1)]
SCHEDULE_DONE = {
    "pause": "It is paused: it submits nothing until it is resumed.",
    "resume": "It goes on from its next time.",
    "remove": "It is removed; its jobs stay.",
}


def add_schedules(router: APIRouter, site: PageContext) -> None:
    kept = site.operations.loop.schedules

    def own(person: Person, number: int) -> Schedule:
        """Returns a schedule. Raises HTTPException (404) if there is none, or it is another owner's."""
        schedule = kept.get(number)
        if schedule is None or not person.sees(schedule.owner):
            raise HTTPException(404, f"There is no schedule {number}, or it is not yours.")
        return schedule

    @router.get("/schedules")
    def schedules(request: Request) -> Response:
        visitor = site.visitor(request)
        rows = kept.all(site.operations.only(visitor.person, None))
        states = site.operations.ledger.states([schedule.job for schedule in rows if schedule.job])
        done = SCHEDULE_DONE.get(request.query_params.get("done", ""), "")
        return site.page(request, visitor, "schedules.html", schedules=rows, states=states, done=done)

    @router.get("/schedules/{number}/remove")
    def ask(request: Request, number: Number) -> Response:
        visitor = site.visitor(request, "submitter")
        schedule = own(visitor.person, number)
        more: dict[str, Any] = {
            "question": "Remove this schedule?",
            "button": "Remove it",
            "above": [("/schedules", "Schedules")],
            "title": " ".join([schedule.verb, *schedule.words]),
            "about": f"at {schedule.every} (UTC), of {schedule.owner}",
            "what": "It submits nothing more; the jobs that it has submitted stay.",
        }
        return site.page(request, visitor, "ask.html", action=f"/schedules/{number}/remove", **more)

    @router.post("/schedules/{number}/{action}")
    async def act(request: Request, number: Number, action: str) -> Response:
        visitor, _ = await site.form(request)
        person = visitor.person

        def do() -> None:
            schedule = own(person, number)
            match action:
                case "pause" | "resume":
                    kept.set_active(schedule, action == "resume", person)
                case "remove":
                    kept.remove(schedule, person.owner)
                case _:
                    raise HTTPException(404, "There is no such page.")

        await run_in_threadpool(do)
        return RedirectResponse(f"/schedules?done={action}", 303)


Id = Annotated[str, Path(max_length=40, pattern=NAME)]
Beside = Annotated[str | None, Query(max_length=40)]  # a job whose curves are drawn too; none: the champion's
Parts = Mapping[str, str]
Context = dict[str, Any]
JOB_PARTS = ("head", "attempts", "curves", "usage", "links", "notices", "changes")
Handler = Callable[[Request, Exception], Awaitable[Response]]


def add_pages(app: FastAPI, site: PageContext) -> None:
    router = APIRouter(route_class=page_route(site), include_in_schema=False, default_response_class=HTMLResponse)
    adding = (people.add_sign_in, people.add_tokens, add_list, add_schedules, add_shards, add_models)
    for add in (*adding, people.add_audit, people.add_projects, _job, _actions, _submit, _cluster):
        add(router, site)
    app.include_router(router)
    app.mount("/static", KeptStaticFiles(FOLDER / "static"))
    handler = cast("Handler", app.exception_handlers[StarletteHTTPException])

    @app.exception_handler(StarletteHTTPException)
    async def nothing(request: Request, problem: StarletteHTTPException) -> Response:
        """Shows a page for an unknown address to browsers; programs get JSON."""
        asks = problem.status_code == 404 and "text/html" in request.headers.get("accept", "")
        if not asks or request.url.path.startswith(("/v1/", "/live/", "/static/")):
            return await handler(request, problem)
        return await run_in_threadpool(problem_page, site, request, Refusal(404, "There is no such page."))


def _marked(parts: Parts) -> dict[str, dict[str, str]]:
    """Returns the parts of a page in the form that its template takes."""
    return {name: part(name, text) for name, text in parts.items()}


def _job_parts(site: PageContext, visitor: Visitor, name: str, beside: str) -> Parts:
    parts = {**jobpage.overview(site, visitor.person, name, beside), "csrf": visitor.csrf, "person": visitor.person}
    parts["changes"] = jobpage.history(site, visitor.person, name)
    return {part: site.render(f"_job_{part}.html", **parts) for part in JOB_PARTS}


def _job(router: APIRouter, site: PageContext) -> None:
    def show(request: Request, name: str, beside: str | None, status: int = 200, problem: str = "") -> Response:
        visitor = site.visitor(request)
        job = site.operations.job(visitor.person, name)
        beside = jobpage.champion_job(site, job) if beside is None else beside
        log = jobpage.log_piece(site, job, job.attempt, None)
        more: Context = {
            "job": job,
            "title": jobpage.title(job),
            "log": log,
            "problem": problem,
            "parts": _marked(_job_parts(site, visitor, name, beside)),
            "choices": submitting.choices(site, visitor.person) if job.state in QUEUED else [],
            "done": jobpage.DONE.get(request.query_params.get("done", ""), ""),
            "command": jobpage.command(job),
        }
        place = f"{site.newest()}:{max(1, job.attempt)}:{log.end}"
        follow = urlencode({"after": place, "beside": beside})
        more["stream"] = "" if job.state in ENDED else f"/live/jobs/{name}?{follow}"
        return site.page(request, visitor, "job.html", status, **more)

    @router.get("/jobs/{id}")
    def job(request: Request, id: Id, beside: Beside = None) -> Response:
        return show(request, id, beside)

    @router.get("/live/jobs/{id}")
    async def live_job(request: Request, id: Id, after: str = "", beside: Beside = None) -> StreamingResponse:
        visitor = await run_in_threadpool(site.visitor, request)
        await run_in_threadpool(site.operations.job, visitor.person, id)
        place = live.last_place(request, after)
        parts = partial(_job_parts, site, visitor, id, beside or "")
        source = live.job(site.operations.ledger, site.newest, site.home, id, place, parts)
        return live.answer(site, visitor, source)

    @router.get("/jobs/{id}/log")
    def log(
        request: Request,
        id: Id,
        attempt: Annotated[int, Query(ge=0, le=10**6)] = 0,
        before: Annotated[int | None, Query(ge=0, le=2**53)] = None,
        after: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    ) -> Response:
        visitor = site.visitor(request)
        row = site.operations.job(visitor.person, id)
        number = attempt or row.attempt
        return JSONResponse(vars(jobpage.log_piece(site, row, number, before, after)), headers=HEADERS)

    @router.get("/jobs/{id}/log.txt")
    def whole_log(request: Request, id: Id, attempt: Annotated[int, Query(ge=0, le=10**6)] = 0) -> Response:
        visitor = site.visitor(request)
        row = site.operations.job(visitor.person, id)
        number = attempt or row.attempt
        headers = {**HEADERS, "Content-Disposition": f'inline; filename="{row.id}-a{number}.log"'}
        source = jobpage.whole_log(site, row, number)
        return StreamingResponse(source, media_type="text/plain; charset=utf-8", headers=headers)

    @router.get("/jobs/{id}/report")
    def one_page(request: Request, id: Id) -> Response:
        visitor = site.visitor(request)
        row = site.operations.job(visitor.person, id)
        text = report(row, site.operations.ledger.attempts(id), site.operations.changes(visitor.person, id), site.home)
        policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
        return HTMLResponse(text, headers={**HEADERS, "Content-Security-Policy": policy})


def _actions(router: APIRouter, site: PageContext) -> None:
    asks = {
        "stop": (
            "Stop this job?",
            "Stop it",
            "It ends in order, a training with a checkpoint, and is not started again unless you say so.",
        ),
        "remove": (
            "Remove this job?",
            "Remove it",
            "Its row, its attempts and its page go; the audit trail remembers it.",
        ),
    }

    @router.get("/jobs/{id}/{action}")
    def ask(request: Request, id: Id, action: str) -> Response:
        if action not in asks:
            raise HTTPException(404, "There is no such page.")
        visitor = site.visitor(request, "submitter")
        job = site.operations.job(visitor.person, id)
        question, button, what = asks[action]
        more: Context = {"title": jobpage.title(job), "question": question, "what": what, "button": button}
        more |= {"about": f"{job.verb} of {job.owner}, is {job.state}."}
        more |= {"above": [("/", "Jobs"), (f"/jobs/{id}", id)], "action": f"/jobs/{id}/{action}"}
        return site.page(request, visitor, "ask.html", **more)

    @router.post("/jobs/{id}/{action}")
    async def act(request: Request, id: Id, action: str) -> Response:
        visitor, sent = await site.form(request)
        person, operations = visitor.person, site.operations
        does: dict[str, Callable[[], object]] = {
            "stop": lambda: operations.stop(person, id),
            "yield": lambda: operations.make_room(person, id),
            "retry": lambda: operations.retry(person, id),
            "remove": lambda: operations.remove(person, id),
            "priority": lambda: operations.set_priority(person, id, _priority(sent.get("priority"))),
            "after": lambda: operations.set_after(
                person, id, submitting.find_jobs(site, person, str(sent.get("after", "")))
            ),
        }
        if action not in does:
            raise HTTPException(404, "There is no such page.")
        await run_in_threadpool(does[action])
        return RedirectResponse("/?removed" if action == "remove" else f"/jobs/{id}?done={action}", 303)


def _priority(word: object) -> int:
    for name, number in PRIORITIES.items():
        if name == word:
            return number
    raise UserError(f"priority: {word!r} is none of {', '.join(PRIORITIES)}")


def _submit(router: APIRouter, site: PageContext) -> None:
    def show(
        request: Request,
        visitor: Any,
        filled: submitting.Filled,
        plan: Any = None,
        problem: str = "",
        status: int = 200,
        words: Sequence[str] = (),
        kept: str = "",
    ) -> Response:
        try:
            fields, filled = submitting.form(site, filled)
        except (UserError, ServiceError) as wrong:
            fields, problem, status = (
                {"groups": [], "general": [], "sections": []},
                str(wrong),
                refusal_of(wrong).status,
            )
        own = site.operations.presets.all(visitor.person.owner)
        values = {"plan": plan, "problem": problem, "verb": filled.verb, "now": site.now, "words": words}
        if request.headers.get("x-part") == "plan":
            return HTMLResponse(site.render("_plan.html", **values), status, headers=HEADERS)
        more: Context = {"asked": fields, "filled": filled, "verbs": VERBS, **values, "presets": own, "kept": kept}
        more["choices"] = submitting.choices(site, visitor.person)
        more["projects"] = [project.name for project in site.sharing.all(visitor.person)]
        return site.page(request, visitor, "submit.html", status, **more)

    @router.get("/submit")
    def empty(request: Request, like: str = "", preset: str = "") -> Response:
        visitor = site.visitor(request, "submitter")
        if like:
            filled = submitting.repeat_job(site, site.operations.job(visitor.person, like))
        elif preset:
            filled = submitting.fill_preset(site.operations.presets.get(visitor.person.owner, preset).content)
        else:
            filled = submitting.read_form(request.query_params)
            project = visitor.person.project(request.query_params.get("project"))
            filled = replace(filled, queuing={**filled.queuing, "project": project})
        return show(request, visitor, filled, kept=preset)

    @router.post("/submit")
    async def hand_in(request: Request) -> Response:
        visitor, sent = await site.form(request)
        return await run_in_threadpool(answer, request, visitor, sent)

    def answer(request: Request, visitor: Any, sent: Any) -> Response:
        filled, what = submitting.read_form(sent), str(sent.get("do", "plan"))
        if what == "fields":  # another command or model has other fields
            return show(request, visitor, filled)
        try:
            fields, filled = submitting.form(site, filled)
            words = submitting.overrides(fields, filled)
            if what in ("keep", "forget"):
                name = str(sent.get("preset", "")).strip()
                submitting.change_preset(site, visitor.person, what, name, filled, words)
                return RedirectResponse(f"/submit?preset={name}" if what == "keep" else "/submit", 303)
            body = submitting.submission(site, visitor.person, filled, words)
            if what == "submit":
                job = site.operations.submit(visitor.person, body)
                return RedirectResponse(f"/jobs/{job.id}?done=submit", 303)
            request_only = schemas.PlanRequest(verb=body.verb, overrides=body.overrides, project=body.project)
            plan = site.operations.plan(visitor.person, request_only)
            return show(request, visitor, filled, plan, words=body.overrides)
        except (UserError, ServiceError, HTTPException, KeyError) as wrong:
            refusal = refusal_of(wrong)
            return show(request, visitor, filled, problem=refusal.text, status=refusal.status)


def _cluster(router: APIRouter, site: PageContext) -> None:
    def shown(person: Person) -> Parts:
        return {"cluster": site.render("_cluster.html", **cluster.cluster(site, person), person=person)}

    @router.get("/cluster")
    def page(request: Request) -> Response:
        visitor = site.visitor(request)
        parts = _marked(shown(visitor.person))
        return site.page(request, visitor, "cluster.html", parts=parts, stream="/live/cluster")

    @router.get("/live/cluster")
    async def live_cluster(request: Request) -> StreamingResponse:
        visitor = await run_in_threadpool(site.visitor, request)
        return live.answer(site, visitor, live.parts(site.newest, lambda: shown(visitor.person)))
