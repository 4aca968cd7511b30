"""Signing in and out: with a token, or at the issuer; and letting a command line in.

/login   /login/issuer -> the issuer -> /login/callback   /login/device   /logout
"""

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse

from dragoman.model.errors import ServiceError, UserError
from dragoman.services.jobs.ledger.access import TokenExpiredError
from dragoman.services.jobs.ledger.own_tokens import SESSION, OwnTokens
from dragoman.services.jobs.ledger.people import NotAdmittedError
from dragoman.services.jobs.pages.sessions import COOKIE, PENDING, Visitor
from dragoman.services.jobs.pages.site import HEADERS, Site
from dragoman.services.jobs.service.issuer import Pending, RejectedError


def add(router: APIRouter, site: Site) -> None:
    """Adds the routes."""
    sessions = site.sessions
    own = OwnTokens(sessions.access)
    door = sessions.guard.door

    def form(next: str, problem: str = "", status: int = 200) -> Response:
        issuer = door.issuer
        text = site.render("login.html", next=inside(next), problem=problem, issuer=issuer and issuer.name)
        return HTMLResponse(text, status, headers=HEADERS)

    @router.get("/login")
    def login(next: str = "/") -> Response:
        return form(next, door.issuer.trouble or "" if door.issuer else "")

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

    @router.get("/login/issuer")
    def begin(request: Request, next: str = "/") -> Response:
        if door.issuer is None:
            return form(next, "People sign in with tokens here.", 404)
        sessions.guard.count_address(request)
        try:
            address, pending = door.issuer.begin()
        except (ServiceError, UserError) as problem:
            return form(next, f"{problem}.", 503)
        answer = RedirectResponse(address, 303, {"Cache-Control": "no-store"})
        sessions.keep_pending(request, answer, {**pending.plain(), "next": inside(next)})
        return answer

    @router.get("/login/callback")
    def come_back(request: Request) -> Response:
        kept = sessions.take_pending(request)
        sessions.guard.count_address(request)
        if door.issuer is None or door.people is None or kept is None:
            return form("/", "This sign-in was begun elsewhere, or long ago. Begin it here.", 400)
        wanted = kept.pop("next")
        try:
            claims = door.issuer.finish(Pending(**kept), request.query_params)
            person = door.people.admit(claims, float(claims["exp"]))
            token = own.lend(person, SESSION, door.issuer.config.session)
            cookie = sessions.sign_in(request, token)
        except RejectedError as problem:
            answer = form(wanted, f"No: {problem}.", 401)
        except NotAdmittedError as problem:
            answer = form(wanted, f"No: {problem}.", 403)
        except (ServiceError, UserError) as problem:
            answer = form(wanted, f"{problem}.", 503)
        else:
            assert cookie is not None  # the token was made just now
            answer = RedirectResponse(wanted, 303, {"Cache-Control": "no-store"})
            sessions.set_cookie(request, answer, cookie)
        answer.delete_cookie(PENDING, path="/login")  # an answer counts once
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
        visitor, _ = await site.form(request, "viewer")
        await run_in_threadpool(end, visitor)
        answer = RedirectResponse("/login" if sessions.keys else "/", 303)
        answer.delete_cookie(COOKIE)
        return answer

    def end(visitor: Visitor) -> None:
        """Ends the sign-in at the issuer that this session stands for: a copy of the cookie lets nobody in."""
        for one in own.of(visitor.person.owner):
            if one.digest == visitor.person.proof and one.kind == SESSION:
                own.revoke(one.owner, one.name.rpartition("/")[2], one.owner)


def inside(address: str) -> str:
    """Returns the address if it is one of our pages, else the start page."""
    return address if address.startswith("/") and not address.startswith(("//", "/\\")) else "/"
