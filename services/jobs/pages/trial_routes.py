"""The routes of trials: the page of a sweep, of an array or of any list of trainings, its stream, the same as CSV.

/trials   /live/trials   /trials.csv
"""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.pages import live
from dragoman.services.jobs.pages.site import HEADERS, Site, part
from dragoman.services.jobs.pages.trial_page import Asked, TrialPages


def add_trials(router: APIRouter, site: Site) -> None:
    """Adds them to the router."""
    pages = TrialPages(site)

    def shown(person: Person, found: Mapping[str, Any]) -> Mapping[str, str]:
        return {"trials": site.render("_trials.html", **found, now=site.now, person=person)}

    @router.get("/trials")
    def trials(request: Request) -> Response:
        visitor, asked = site.visitor(request), Asked.read(request.query_params)
        found = pages.page(visitor.person, asked)
        parts = {name: part(name, text) for name, text in shown(visitor.person, found).items()}
        more = {"title": found["title"], "stream": f"/live/trials{asked.query()}" if found["live"] else ""}
        return site.page(request, visitor, "trials.html", asked=asked, parts=parts, **more)

    @router.get("/live/trials")
    async def live_trials(request: Request) -> StreamingResponse:
        visitor, asked = await run_in_threadpool(site.visitor, request), Asked.read(request.query_params)

        def fresh() -> Mapping[str, str]:
            return shown(visitor.person, pages.page(visitor.person, asked))

        return live.answer(site, visitor, live.parts(site.newest, fresh))

    @router.get("/trials.csv")
    def table(request: Request) -> Response:
        visitor, asked = site.visitor(request), Asked.read(request.query_params)
        asked.filter.search.conditions(site.now)  # refused before the answer begins
        headers = {**HEADERS, "Content-Disposition": 'attachment; filename="trials.csv"'}
        return StreamingResponse(pages.as_csv(visitor.person, asked), media_type="text/csv", headers=headers)
