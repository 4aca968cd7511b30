"""The routes of comparisons: the page, and comparisons that a user keeps under a name, with a note.

/compare   /comparisons (POST)   /comparisons/NAME/remove (POST)
"""

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.ledger import UnknownJobError
from dragoman.services.jobs.pages import compare
from dragoman.services.jobs.pages.site import Site
from dragoman.services.jobs.service import schemas
from dragoman.services.jobs.service.operations import clean_note

DONE = {"kept": "The comparison is kept.", "forgotten": "The name of that comparison is removed; its jobs stay."}


def add_comparisons(router: APIRouter, site: Site) -> None:
    """Adds them to the router."""
    kept = site.operations.comparisons

    @router.get("/compare")
    def together(
        request: Request,
        job: Annotated[list[str] | None, Query(max_length=50)] = None,
        kept_as: Annotated[schemas.SavedName | None, Query(alias="kept")] = None,
        done: str = "",
    ) -> Response:
        visitor = site.visitor(request)
        own, names, gone = kept.all(visitor.person.owner), job or [], list[str]()
        here = next((one for one in own if one.name == kept_as), None)
        if kept_as is not None and here is None:
            kept.get(visitor.person.owner, kept_as)  # the refusal names the others
        if here is not None:
            names, gone = _split(site, visitor.person, here.content["jobs"])
        found = compare.comparison(site, visitor.person, names)
        more: dict[str, Any] = {"kept": own, "here": here, "gone": gone, "done": DONE.get(done, "")}
        return site.page(request, visitor, "compare.html", **found, **more)

    @router.post("/comparisons")
    async def keep(request: Request) -> Response:
        visitor, sent = await site.form(request, "viewer")
        name, jobs = str(sent.get("name", "")).strip(), [str(one) for one in sent.getlist("job")]
        await run_in_threadpool(_keep, site, visitor.person, name, jobs, str(sent.get("note", "")))
        return RedirectResponse(f"/compare?{urlencode({'kept': name, 'done': 'kept'})}", 303)

    @router.post("/comparisons/{name}/remove")
    async def forget(request: Request, name: Annotated[schemas.SavedName, Path()]) -> Response:
        visitor, _ = await site.form(request, "viewer")
        await run_in_threadpool(kept.remove, visitor.person.owner, name)
        return RedirectResponse("/compare?done=forgotten", 303)


def _keep(site: Site, person: Person, name: str, jobs: Sequence[str], note: str) -> None:
    """Keeps a comparison under a name.

    Raises:
        UserError: an invalid name, too many jobs or none, or a note that is too long.
        UnknownJobError: a job does not exist, or this person may not see it.
    """
    schemas.check_saved_name(name)
    if not 0 < len(jobs) <= compare.MOST:
        raise UserError(f"{len(jobs)} jobs: a comparison has 1 to {compare.MOST}")
    for job in jobs:
        site.operations.job(person, job)
    site.operations.comparisons.put(person.owner, name, {"jobs": list(jobs), "note": clean_note(note)})


def _split(site: Site, person: Person, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the jobs that are there, and those that have been removed since."""
    there, gone = list[str](), list[str]()
    for name in names:
        try:
            there.append(site.operations.job(person, name).id)
        except UnknownJobError:
            gone.append(name)
    return there, gone
