"""The routes of trials: the page of a sweep, of an array or of any list of trainings, its stream, the same as CSV.

/trials   /live/trials   /trials.csv
"""

from collections.abc import Mapping

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from services.jobs.ledger.access import Person
from services.jobs.pages import live
from services.jobs.pages.site import HEADERS, Site, part
from services.jobs.pages.trial_page import Asked, TrialPages


def add_trials(router: APIRouter, site: Site) -> None:
    """Adds them to the router."""
    pages = TrialPages(site)

    def shown(person: Person, asked: Asked) -> tuple[str, Mapping[str, str]]:
        found = pages.page(person, asked)
        return found["title"], {"trials": site.render("_trials.html", **found, now=site.now, person=person)}

    @router.get("/trials")
    def trials(request: Request) -> Response:
        visitor, asked = site.visitor(request), Asked.read(request.query_params)
        title, parts = shown(visitor.person, asked)
        marked = {name: part(name, text) for name, text in parts.items()}
        stream = f"/live/trials{asked.query()}"
        return site.page(request, visitor, "trials.html", title=title, asked=asked, parts=marked, stream=stream)

    @router.get("/live/trials")
    async def live_trials(request: Request) -> StreamingResponse:
        visitor, asked = await run_in_threadpool(site.visitor, request), Asked.read(request.query_params)
        return live.answer(site, visitor, live.parts(site.newest, lambda: shown(visitor.person, asked)[1]))

    @router.get("/trials.csv")
    def table(request: Request) -> Response:
        visitor, asked = site.visitor(request), Asked.read(request.query_params)
        asked.filter.search.conditions(site.now)  # refused before the answer begins
        headers = {**HEADERS, "Content-Disposition": 'attachment; filename="trials.csv"'}
        return StreamingResponse(pages.as_csv(visitor.person, asked), media_type="text/csv", headers=headers)
