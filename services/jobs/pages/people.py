"""The pages of people: signing in, tokens, projects, the audit."""

from collections.abc import Callable
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse

from dragoman.model.errors import UserError
from dragoman.services.jobs.bodies import SavedName
from dragoman.services.jobs.ledger.access import TokenExpiredError
from dragoman.services.jobs.ledger.audit import AuditQuery
from dragoman.services.jobs.ledger.own_tokens import LENDABLE
from dragoman.services.jobs.ledger.projects import RANKS
from dragoman.services.jobs.pages.csv_files import AT_ONCE, Column, csv_file
from dragoman.services.jobs.pages.sessions import COOKIE
from dragoman.services.jobs.pages.site import (
    HEADERS,
    Admin,
    AdminForm,
    Page,
    PageContext,
    Question,
    SubmitterForm,
    Viewer,
    ViewerForm,
    page_router,
    validated,
)
from dragoman.services.jobs.service import people_schemas as schemas
from dragoman.services.jobs.service.words import iso

router = page_router()


def _login(request: Request, next: str, problem: str = "", status: int = 200) -> Response:
    site: PageContext = request.app.state.pages
    return HTMLResponse(site.render("login.html", next=inside(next), problem=problem), status, headers=HEADERS)


@router.get("/login")
def login(request: Request, next: str = "/") -> Response:
    return _login(request, next)


@router.post("/login")
async def enter(request: Request) -> Response:
    sessions = request.app.state.pages.sessions
    sent = await request.form(max_files=0, max_fields=10)
    next_page, token = inside(str(sent.get("next", "/"))), str(sent.get("token", "")).strip()
    try:
        cookie = await run_in_threadpool(sessions.sign_in, request, token)
    except TokenExpiredError as expired:
        return _login(request, next_page, f"No: {expired}.", 401)
    if cookie is None:
        return _login(request, next_page, "This token lets nobody in: it is wrong or revoked.", 401)
    answer = RedirectResponse(next_page, 303)
    sessions.set_cookie(request, answer, cookie)
    return answer


@router.get("/login/device")
def device(page: Viewer) -> Response:
    return page.show("device.html", said="")


@router.post("/login/device")
def decide(page: ViewerForm) -> Response:
    allowed = page.text("do") == "allow"
    try:
        address = page.site.devices.decide(page.person, page.text("code"), allowed)
    except UserError as problem:
        return page.show("device.html", 400, said="", problem=str(problem))
    return page.show("device.html", said=f"The command line at {address} {'is let in' if allowed else 'is kept out'}.")


@router.post("/logout")
def leave(page: ViewerForm) -> Response:
    answer = RedirectResponse("/login" if page.site.sessions.guard.keys else "/", 303)
    answer.delete_cookie(COOKIE)
    return answer


def inside(address: str) -> str:
    """Returns the address if it is one of our pages, else the start page."""
    return address if address.startswith("/") and not address.startswith(("//", "/\\")) else "/"


ENDS = {"1d": "a day", "7d": "a week", "30d": "30 days", "90d": "90 days", "365d": "a year"}


def _tokens(page: Page, made: str = "", problem: str = "", status: int = 200) -> Response:
    roles = [role for role in LENDABLE if page.person.may(role)]
    tokens = page.site.own_tokens.of(page.person.owner)
    return page.show("tokens.html", status, tokens=tokens, roles=roles, ends=ENDS, made=made, problem=problem)


@router.get("/tokens")
def tokens(page: Viewer) -> Response:
    return _tokens(page)


@router.post("/tokens")
def make_token(page: ViewerForm) -> Response:
    try:
        made = page.site.own_tokens.make(page.person, page.text("name"), page.text("role") or None, page.text("ends"))
    except UserError as wrong:
        return _tokens(page, problem=str(wrong), status=400)
    return _tokens(page, made)


@router.post("/tokens/revoke")
def revoke_token(page: ViewerForm) -> Response:
    owner = page.person.owner
    page.site.own_tokens.revoke(owner, page.text("name"), owner)
    return RedirectResponse("/tokens", 303)


Name = Annotated[SavedName, Path()]
REMOVE = Question("Remove this project?", "Remove it", "Its members and its quota go; its jobs stay with their owners.")
DONE = {
    "create": "The project is made.",
    "enter": "They are a member now.",
    "leave": "They are no member any more.",
    "quota": "The quota is set.",
    "remove": "The project is removed; its jobs stay with their owners.",
}


@router.get("/projects")
def projects(page: Viewer) -> Response:
    return _projects(page)


def _projects(page: Page, problem: str = "", status: int = 200) -> Response:
    person, projects = page.person, page.site.sharing.all(page.person)
    ranks = dict(person.projects)
    manages = {project.name for project in projects if person.sees_all or ranks.get(project.name) == "maintainer"}
    more = {"projects": projects, "manages": manages, "ranks": RANKS, "problem": problem, "done": page.done(DONE)}
    return page.show("projects.html", status, **more)


def _change(page: Page, action: str, change: Callable[[], object]) -> Response:
    try:
        change()
    except UserError as wrong:
        return _projects(page, str(wrong), 400)
    return RedirectResponse(f"/projects?done={action}", 303)


@router.post("/projects")
def create_project(page: AdminForm) -> Response:
    def create() -> None:
        body = validated(schemas.ProjectRequest, {key: page.text(key) for key in ("name", "group")})
        page.site.sharing.projects.create(body.name, body.group, page.person.owner)

    return _change(page, "create", create)


@router.post("/projects/{name}/enter")
def add_member(page: SubmitterForm, name: Name) -> Response:
    sharing = page.site.sharing
    return _change(page, "enter", lambda: sharing.enter(page.person, name, page.text("owner"), page.text("role")))


@router.post("/projects/{name}/leave")
def remove_member(page: SubmitterForm, name: Name) -> Response:
    return _change(page, "leave", lambda: page.site.sharing.leave(page.person, name, page.text("owner")))


@router.post("/projects/{name}/quota")
def set_quota(page: AdminForm, name: Name) -> Response:
    limits = {key: page.text(key) or None for key in ("cpus", "gpus", "jobs")}  # an empty field is no limit
    return _change(
        page,
        "quota",
        lambda: page.site.sharing.set_quota(page.person, name, validated(schemas.QuotaRequest, limits, "=")),
    )


@router.get("/projects/{name}/remove")
def ask_removal(page: Admin, name: Name) -> Response:
    page.site.sharing.get(page.person, name)
    return page.ask(REMOVE, name, "It needs to have no unfinished jobs and no models.", ("/projects", "Projects"))


@router.post("/projects/{name}/remove")
def remove_project(page: AdminForm, name: Name) -> Response:
    project = page.site.sharing.get(page.person, name).name
    return _change(page, "remove", lambda: page.site.sharing.projects.remove(project, page.person.owner))


ROWS = 50  # of a page
FILTERS = ("person", "what", "status", "since", "until")
STATUSES = {
    "": "Any answer",
    "2xx": "Done (2xx)",
    "4xx": "Refused (4xx)",
    "401": "No valid token (401)",
    "403": "Not allowed (403)",
    "5xx": "Failed (5xx)",
}
COLUMNS = ("person", "token", "address", "method", "resource", "status", "detail")


@router.get("/audit")
def audit(page: Viewer, before: str = "") -> Response:
    values, problem = _filters(page), ""
    try:
        query = _query(values, before)
        rows = page.operations.audit_rows(page.person, query, query.cursor, ROWS + 1)
    except UserError as wrong:
        rows, problem = [], str(wrong)
    more = f"/audit?{urlencode({**values, 'before': rows[ROWS - 1].id})}" if len(rows) > ROWS else ""
    return page.show(
        "audit.html",
        400 if problem else 200,
        problem=problem,
        rows=rows[:ROWS],
        given={**dict.fromkeys(FILTERS, ""), **values},
        query=urlencode(values),
        more=more,
        statuses=STATUSES,
        first=not before,
    )


@router.get("/audit.csv")
def audit_file(page: Viewer) -> Response:
    query = _query(_filters(page))
    query.conditions(page.now)  # refused before the answer begins
    columns: dict[str, Column] = {"time": lambda row: iso(row.at), **{name: name for name in COLUMNS}}
    return csv_file(
        "audit.csv", columns, lambda before: page.operations.audit_rows(page.person, query, before, AT_ONCE), "id"
    )


def _filters(page: Page) -> dict[str, str]:
    """Returns the filters of the page's address that are not empty."""
    values = {key: page.request.query_params.get(key, "").strip()[:200] for key in FILTERS}
    return {key: value for key, value in values.items() if value}


def _query(values: dict[str, str], before: str = "") -> AuditQuery:
    """Returns what an address asks for. Raises UserError for a value that its field does not take."""
    return validated(AuditQuery, {**values, **({"cursor": before} if before else {})})
