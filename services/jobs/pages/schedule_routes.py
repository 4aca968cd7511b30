"""The routes of schedules: their list, pause and resume, and removing one after a question."""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.tables import Schedule
from dragoman.services.jobs.pages.site import Site

Number = Annotated[int, Path(ge=1, le=2**31 - 1)]
DONE = {
    "pause": "It is paused: it submits nothing until it is resumed.",
    "resume": "It goes on from its next time.",
    "remove": "It is removed; its jobs stay.",
}


def add_schedules(router: APIRouter, site: Site) -> None:
    """Adds them to the router."""
    kept = site.operations.loop.schedules

    def own(person: Person, number: int) -> Schedule:
        """Returns a schedule. Raises HTTPException (404) if there is none, or it is another owner's."""
        found = kept.get(number)
        if found is None or not person.sees(found.owner):
            raise HTTPException(404, f"There is no schedule {number}, or it is not yours.")
        return found

    @router.get("/schedules")
    def schedules(request: Request) -> Response:
        visitor = site.visitor(request)
        found = kept.all(site.operations.only(visitor.person, None))
        states = site.operations.ledger.states([one.job for one in found if one.job])
        done = DONE.get(request.query_params.get("done", ""), "")
        return site.page(request, visitor, "schedules.html", schedules=found, states=states, done=done)

    @router.get("/schedules/{number}/remove")
    def ask(request: Request, number: Number) -> Response:
        visitor = site.visitor(request, "submitter")
        one = own(visitor.person, number)
        more: dict[str, Any] = {
            **{"question": "Remove this schedule?", "button": "Remove it", "above": [("/schedules", "Schedules")]},
            **{"title": " ".join([one.verb, *one.words]), "about": f"at {one.every} (UTC), of {one.owner}"},
            **{"what": "It submits nothing more; the jobs that it has submitted stay.", "leave": "/schedules"},
        }
        return site.page(request, visitor, "ask.html", action=f"/schedules/{number}/remove", **more)

    @router.post("/schedules/{number}/{action}")
    async def act(request: Request, number: Number, action: str) -> Response:
        visitor, _ = await site.form(request)
        person = visitor.person

        def do() -> None:
            one = own(person, number)
            match action:
                case "pause" | "resume":
                    kept.set_active(one, action == "resume", person)
                case "remove":
                    kept.remove(one, person.owner)
                case _:
                    raise HTTPException(404, "There is no such page.")

        await run_in_threadpool(do)
        return RedirectResponse(f"/schedules?done={action}", 303)
