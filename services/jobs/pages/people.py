"""The pages of people: signing in, tokens."""

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.access import ROLES, TokenExpiredError
from dragoman.services.jobs.pages.sessions import COOKIE
from dragoman.services.jobs.pages.site import HEADERS, AdminForm, Page, PageContext, Viewer, ViewerForm, page_router

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


@router.post("/logout")
def leave(page: ViewerForm) -> Response:
    answer = RedirectResponse("/login" if page.site.sessions.guard.keys else "/", 303)
    answer.delete_cookie(COOKIE)
    return answer


def inside(address: str) -> str:
    """Returns the address if it is one of our pages, else the start page."""
    return address if address.startswith("/") and not address.startswith(("//", "/\\")) else "/"


DONE = {"revoke": "The token has ended, with its sessions."}
ENDS = {
    "7d": "ends in a week",
    "30d": "ends in 30 days",
    "90d": "ends in 90 days",
    "365d": "ends in a year",
    "": "no end",
}


def _tokens(page: Page, made: str = "", problem: str = "", status: int = 200) -> Response:
    """Shows the tokens: all to an admin, who issues them; to others those of their owners."""
    tokens = page.site.access.tokens(*(() if page.person.may("admin") else page.person.owners))
    more = {"roles": ROLES, "ends": ENDS, "made": made, "problem": problem, "done": page.done(DONE)}
    return page.show("tokens.html", status, tokens=[token for token in tokens if token.revoked is None], **more)


@router.get("/tokens")
def tokens(page: Viewer) -> Response:
    return _tokens(page)


@router.post("/tokens")
def issue(page: AdminForm) -> Response:
    name, owner, role, ends = (page.text(key) for key in ("name", "owner", "role", "ends"))
    try:
        made = page.site.access.issue(name, owner, role, page.person.owner, ends or None)
    except UserError as wrong:
        return _tokens(page, problem=str(wrong), status=400)
    return _tokens(page, made)


@router.post("/tokens/revoke")
def revoke(page: AdminForm) -> Response:
    try:
        page.site.access.revoke(page.text("name"), page.person.owner)
    except UserError as wrong:
        return _tokens(page, problem=str(wrong), status=400)
    return RedirectResponse("/tokens?done=revoke", 303)
