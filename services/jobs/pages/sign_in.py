"""Signing in and out with a token; and letting a command line in.

/login   /login/device   /logout
"""

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.access import TokenExpiredError
from dragoman.services.jobs.pages.sessions import COOKIE
from dragoman.services.jobs.pages.site import HEADERS, Site


def add(router: APIRouter, site: Site) -> None:
    """Adds the routes."""
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
        wanted, token = inside(str(sent.get("next", "/"))), str(sent.get("token", "")).strip()
        try:
            cookie = await run_in_threadpool(sessions.sign_in, request, token)
        except TokenExpiredError as expired:
            return form(wanted, f"No: {expired}.", 401)
        if cookie is None:
            return form(wanted, "This token lets nobody in: it is wrong or revoked.", 401)
        answer = RedirectResponse(wanted, 303)
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
            asked = site.devices.decide(visitor.person, code, allowed)
            said = f"The command line at {asked} {'is let in' if allowed else 'is kept out'}."
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
