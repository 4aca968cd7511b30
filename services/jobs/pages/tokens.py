"""The page of the tokens that one makes for oneself. A new one is in the answer to its form, and in no address."""

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.own_tokens import LENDABLE, OwnTokens
from dragoman.services.jobs.pages.sessions import Visitor
from dragoman.services.jobs.pages.site import Site

ENDS = {"1d": "a day", "7d": "a week", "30d": "30 days", "90d": "90 days", "365d": "a year"}


def add(router: APIRouter, site: Site) -> None:
    """Adds the routes."""
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
