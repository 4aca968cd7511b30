"""The page of projects: who is in them, what they hold, their quotas; members are chosen by maintainers."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse
from pydantic import ValidationError
from starlette.datastructures import FormData

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.projects import RANKS
from dragoman.services.jobs.pages.site import Site
from dragoman.services.jobs.service import schemas

Name = Annotated[schemas.SavedName, Path()]
DONE = {
    "create": "The project is made.",
    "enter": "They are a member now.",
    "leave": "They are no member any more.",
    "quota": "The quota is set.",
    "remove": "The project is removed; its jobs stay with their owners.",
}


def add(router: APIRouter, site: Site) -> None:
    """Adds the routes."""
    sharing = site.sharing

    def show(request: Request, problem: str = "", status: int = 200) -> Response:
        visitor = site.visitor(request)
        person = visitor.person
        ranks = dict(person.projects)
        found = sharing.all(person)
        manages = {one.name for one in found if person.sees_all or ranks.get(one.name) == "maintainer"}
        more: dict[str, Any] = {"projects": found, "manages": manages, "ranks": RANKS, "problem": problem}
        more["done"] = DONE.get(request.query_params.get("done", ""), "")
        return site.page(request, visitor, "projects.html", status, **more)

    @router.get("/projects")
    def projects(request: Request) -> Response:
        return show(request)

    @router.get("/projects/{name}/remove")
    def ask(request: Request, name: Name) -> Response:
        visitor = site.visitor(request, "admin")
        sharing.get(visitor.person, name)
        more: dict[str, Any] = {
            **{"above": [("/projects", "Projects")], "question": "Remove this project?", "button": "Remove it"},
            **{"title": name, "about": "It needs to have no unfinished jobs and no models."},
            **{"what": "Its members and its quota go; its jobs stay with their owners.", "leave": "/projects"},
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


def _create(site: Site, person: Person, sent: FormData) -> None:
    given = {key: str(sent.get(key, "")).strip() for key in ("name", "group")}
    try:
        body = schemas.ProjectRequest.model_validate(given)
    except ValidationError as problem:
        first = problem.errors()[0]
        raise UserError(f"{first['loc'][0]}: {first['msg']}") from None
    site.sharing.projects.create(body.name, body.group, person.owner)


def _quota(sent: FormData) -> schemas.QuotaRequest:
    """Returns the form's limits; an empty field is none. Raises UserError for a value that is no number."""
    given = {key: str(sent.get(key, "")).strip() or None for key in ("cpus", "gpus", "jobs")}
    try:
        return schemas.QuotaRequest.model_validate(given)
    except ValidationError as problem:
        first = problem.errors()[0]
        raise UserError(f"{first['loc'][0]}={given[str(first['loc'][0])]}: {first['msg']}") from None
