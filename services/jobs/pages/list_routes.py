"""The routes of the list of jobs: the page, its stream, the same as CSV, and names for scripts.

/   /live/jobs   /jobs.csv   /recent.json
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, StreamingResponse

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.pages import listing, live
from dragoman.services.jobs.pages.export import as_csv
from dragoman.services.jobs.pages.jobpage import title
from dragoman.services.jobs.pages.search import FIELDS
from dragoman.services.jobs.pages.site import HEADERS, Site, part

RECENT = 50  # jobs offered by name
REMOVED = "The job is removed."


def add_list(router: APIRouter, site: Site) -> None:
    """Adds them to the router."""

    def shown(person: Person, asked: listing.Filter) -> Mapping[str, str]:
        found = listing.listing(site, person, asked)
        return {"jobs": site.render("_jobs.html", found=found, now=site.now, person=person)}

    @router.get("/")
    def jobs(request: Request) -> Response:
        visitor, asked, problem = site.visitor(request), listing.Filter.of(request), ""
        try:
            parts = shown(visitor.person, asked)
        except UserError as wrong:  # beside all jobs, which stand there instead
            parts, problem = shown(visitor.person, replace(asked, text="")), str(wrong)
        more: dict[str, Any] = {
            "stream": "" if problem else f"/live/jobs{asked.query()}",
            "done": REMOVED if "removed" in request.query_params else "",
            "fields": FIELDS,
            "parts": {name: part(name, text) for name, text in parts.items()},
        }
        status = 400 if problem else 200
        return site.page(request, visitor, "jobs.html", status, asked=asked, problem=problem, **more)

    @router.get("/live/jobs")
    async def live_jobs(request: Request) -> StreamingResponse:
        visitor = await run_in_threadpool(site.visitor, request)
        asked = listing.Filter.of(request)
        return live.answer(site, visitor, live.parts(site.newest, lambda: shown(visitor.person, asked)))

    @router.get("/jobs.csv")
    def table(request: Request) -> Response:
        visitor, asked = site.visitor(request), listing.Filter.of(request)
        asked.search.conditions(site.now)  # refused before the answer begins
        headers = {**HEADERS, "Content-Disposition": 'attachment; filename="jobs.csv"'}
        return StreamingResponse(as_csv(site, visitor.person, asked), media_type="text/csv", headers=headers)

    @router.get("/recent.json")
    def recent(request: Request) -> Response:
        visitor = site.visitor(request)
        found = listing.older(site, visitor.person, listing.Filter(), None, RECENT)
        rows = [{"id": job.id, "name": title(job), "verb": job.verb, "state": job.state} for job in found]
        return JSONResponse(rows, headers=HEADERS)
