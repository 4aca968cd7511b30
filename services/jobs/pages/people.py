"""The pages of people: signing in, tokens, projects, the audit."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse
from starlette.datastructures import FormData

from dragoman.model.errors import UserError
from dragoman.services.jobs.bodies import SavedName
from dragoman.services.jobs.ledger.access import Person, TokenExpiredError
from dragoman.services.jobs.ledger.audit import AuditQuery
from dragoman.services.jobs.ledger.own_tokens import LENDABLE, OwnTokens
from dragoman.services.jobs.ledger.projects import RANKS
from dragoman.services.jobs.pages.listing import csv_lines
from dragoman.services.jobs.pages.site import COOKIE, HEADERS, PageContext, Visitor, validated
from dragoman.services.jobs.service import people_schemas as schemas
from dragoman.services.jobs.service.words import iso


def add_sign_in(router: APIRouter, site: PageContext) -> None:
    sessions = site.sessions

    def form(next: str, problem: str = "", status: int = 200) -> Response:
        text = site.render("login.html", next=inside(next), problem=problem)
        return HTMLResponse(text, status, headers=HEADERS)

    @router.get("/login")
    def login(next: str = "/") -> Response:
        return form(next)

    @router.post("/login")
    async def enter(request: Request) -> Response:
        sent = await request.form(max_files=0, max_fields=10)
        next_page, token = inside(str(sent.get("next", "/"))), str(sent.get("token", "")).strip()
        try:
            cookie = await run_in_threadpool(sessions.sign_in, request, token)
        except TokenExpiredError as expired:
            return form(next_page, f"No: {expired}.", 401)
        if cookie is None:
            return form(next_page, "This token lets nobody in: it is wrong or revoked.", 401)
        answer = RedirectResponse(next_page, 303)
        sessions.set_cookie(request, answer, cookie)
        return answer

    @router.get("/login/device")
    def device(request: Request) -> Response:
        return site.page(request, site.visitor(request), "device.html", said="")

    @router.post("/login/device")
    async def decide(request: Request) -> Response:
        visitor, sent = await site.form(request, "viewer")
        code, allowed = str(sent.get("code", "")), sent.get("do") == "allow"

        def answer() -> Response:
            decision = site.devices.decide(visitor.person, code, allowed)
            said = f"The command line at {decision} {'is let in' if allowed else 'is kept out'}."
            return site.page(request, visitor, "device.html", said=said)

        try:
            return await run_in_threadpool(answer)
        except UserError as problem:
            return site.page(request, visitor, "device.html", 400, said="", problem=str(problem))

    @router.post("/logout")
    async def leave(request: Request) -> Response:
        await site.form(request, "viewer")
        answer = RedirectResponse("/login" if sessions.keys else "/", 303)
        answer.delete_cookie(COOKIE)
        return answer


def inside(address: str) -> str:
    """Returns the address if it is one of our pages, else the start page."""
    return address if address.startswith("/") and not address.startswith(("//", "/\\")) else "/"


ENDS = {"1d": "a day", "7d": "a week", "30d": "30 days", "90d": "90 days", "365d": "a year"}


def add_tokens(router: APIRouter, site: PageContext) -> None:
    own = OwnTokens(site.sessions.access)

    def show(request: Request, visitor: Visitor, made: str = "", problem: str = "", status: int = 200) -> Response:
        roles = [role for role in LENDABLE if visitor.person.may(role)]
        more = {"tokens": own.of(visitor.person.owner), "roles": roles, "ends": ENDS, "made": made, "problem": problem}
        return site.page(request, visitor, "tokens.html", status, **more)

    @router.get("/tokens")
    def mine(request: Request) -> Response:
        return show(request, site.visitor(request))

    @router.post("/tokens")
    async def make(request: Request) -> Response:
        visitor, sent = await site.form(request, "viewer")
        name, role, ends = (str(sent.get(key, "")).strip() for key in ("name", "role", "ends"))

        def answer() -> Response:
            try:
                return show(request, visitor, own.make(visitor.person, name, role or None, ends))
            except UserError as wrong:
                return show(request, visitor, problem=str(wrong), status=400)

        return await run_in_threadpool(answer)

    @router.post("/tokens/revoke")
    async def revoke(request: Request) -> Response:
        visitor, sent = await site.form(request, "viewer")
        owner = visitor.person.owner
        await run_in_threadpool(own.revoke, owner, str(sent.get("name", "")), owner)
        return RedirectResponse("/tokens", 303)


Name = Annotated[SavedName, Path()]
PROJECT_DONE = {
    "create": "The project is made.",
    "enter": "They are a member now.",
    "leave": "They are no member any more.",
    "quota": "The quota is set.",
    "remove": "The project is removed; its jobs stay with their owners.",
}


def add_projects(router: APIRouter, site: PageContext) -> None:
    sharing = site.sharing

    def show(request: Request, problem: str = "", status: int = 200) -> Response:
        visitor = site.visitor(request)
        person = visitor.person
        ranks = dict(person.projects)
        projects_seen = sharing.all(person)
        manages = {
            project.name for project in projects_seen if person.sees_all or ranks.get(project.name) == "maintainer"
        }
        more: dict[str, Any] = {"projects": projects_seen, "manages": manages, "ranks": RANKS, "problem": problem}
        more["done"] = PROJECT_DONE.get(request.query_params.get("done", ""), "")
        return site.page(request, visitor, "projects.html", status, **more)

    @router.get("/projects")
    def projects(request: Request) -> Response:
        return show(request)

    @router.get("/projects/{name}/remove")
    def ask(request: Request, name: Name) -> Response:
        visitor = site.visitor(request, "admin")
        sharing.get(visitor.person, name)
        more: dict[str, Any] = {
            "above": [("/projects", "Projects")],
            "question": "Remove this project?",
            "button": "Remove it",
            "title": name,
            "about": "It needs to have no unfinished jobs and no models.",
            "what": "Its members and its quota go; its jobs stay with their owners.",
        }
        return site.page(request, visitor, "ask.html", action=f"/projects/{name}/remove", **more)

    @router.post("/projects")
    async def create(request: Request) -> Response:
        visitor, sent = await site.form(request, "admin")
        return await run_in_threadpool(answer, request, "create", lambda: _create(site, visitor.person, sent))

    @router.post("/projects/{name}/{action}")
    async def act(request: Request, name: Name, action: str) -> Response:
        visitor, sent = await site.form(request, "admin" if action in ("quota", "remove") else "submitter")
        person, owner = visitor.person, str(sent.get("owner", "")).strip()
        does: dict[str, Callable[[], object]] = {
            "enter": lambda: sharing.enter(person, name, owner, str(sent.get("role", ""))),
            "leave": lambda: sharing.leave(person, name, owner),
            "quota": lambda: sharing.set_quota(person, name, _quota(sent)),
            "remove": lambda: sharing.projects.remove(sharing.get(person, name).name, person.owner),
        }
        if action not in does:
            raise HTTPException(404, "There is no such page.")
        return await run_in_threadpool(answer, request, action, does[action])

    def answer(request: Request, action: str, does: Callable[[], object]) -> Response:
        try:
            does()
        except UserError as wrong:
            return show(request, str(wrong), 400)
        return RedirectResponse(f"/projects?done={action}", 303)


def _create(site: PageContext, person: Person, sent: FormData) -> None:
    values = {key: str(sent.get(key, "")).strip() for key in ("name", "group")}
    body = validated(schemas.ProjectRequest, values)
    site.sharing.projects.create(body.name, body.group, person.owner)


def _quota(sent: FormData) -> schemas.QuotaRequest:
    """Returns the form's limits; an empty field is none. Raises UserError for a value that is no number."""
    values = {key: str(sent.get(key, "")).strip() or None for key in ("cpus", "gpus", "jobs")}
    return validated(schemas.QuotaRequest, values, "=")


ROWS, AT_ONCE = 50, 500  # of a page; of a query for a file
FILTERS = ("person", "what", "status", "since", "until")
STATUSES = {"": "Any answer", "2xx": "Done (2xx)", "4xx": "Refused (4xx)", "401": "No valid token (401)"}
STATUSES |= {"403": "Not allowed (403)", "5xx": "Failed (5xx)"}
HEAD = ("time", "person", "token", "address", "method", "resource", "status", "detail")


def add_audit(router: APIRouter, site: PageContext) -> None:
    @router.get("/audit")
    def audit(request: Request) -> Response:
        visitor, problem = site.visitor(request), ""
        values = {key: request.query_params.get(key, "").strip()[:200] for key in FILTERS}
        before = request.query_params.get("before", "")
        try:
            query_values = read(values, before)
            rows = site.operations.audit_rows(visitor.person, query_values, query_values.cursor, ROWS + 1)
        except UserError as wrong:
            rows, problem = [], str(wrong)
        query = {key: value for key, value in values.items() if value}
        more = f"/audit?{urlencode({**query, 'before': rows[ROWS - 1].id})}" if len(rows) > ROWS else ""
        parts: dict[str, Any] = {"rows": rows[:ROWS], "given": values, "query": urlencode(query), "more": more}
        parts |= {"statuses": STATUSES, "first": not before}
        return site.page(request, visitor, "audit.html", 400 if problem else 200, problem=problem, **parts)

    @router.get("/audit.csv")
    def table(request: Request) -> Response:
        visitor = site.visitor(request)
        query_values = read({key: request.query_params.get(key, "").strip() for key in FILTERS}, "")
        query_values.conditions(site.now)  # refused before the answer begins
        headers = {**HEADERS, "Content-Disposition": 'attachment; filename="audit.csv"'}
        return StreamingResponse(_csv(site, visitor.person, query_values), media_type="text/csv", headers=headers)


def read(values: dict[str, str], before: str) -> AuditQuery:
    """Returns what an address asks for. Raises UserError for a value that its field does not take."""
    return validated(AuditQuery, {key: value for key, value in {**values, "cursor": before}.items() if value})


def _csv(site: PageContext, person: Person, query_values: AuditQuery) -> Iterator[str]:
    """Yields the wanted rows, newest first, as pieces of a CSV file."""
    yield csv_lines([HEAD])
    before = None
    while rows := site.operations.audit_rows(person, query_values, before, AT_ONCE):
        yield csv_lines([(iso(row.at), *(getattr(row, name) for name in HEAD[1:])) for row in rows])
        before = rows[-1].id
