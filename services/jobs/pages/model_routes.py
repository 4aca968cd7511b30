"""The routes of models: their list, a card of each version, its pictures, and moving the alias.

/models   /models/NAME   /models/NAME/pictures/WORD   /models/NAME/promote, rollback (asked first)
"""

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from dragoman.model.errors import ServiceError, UserError
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.pages import models, promoting
from dragoman.services.jobs.pages.evaluated import PICTURES, picture
from dragoman.services.jobs.pages.site import HEADERS, Site
from dragoman.services.jobs.service.tracking import Model, Version

Name = Annotated[str, Path(max_length=300)]
Number = Annotated[str, Query(max_length=20)]
ASKS = {
    "promote": (
        *("Promote this version?", "Promote it"),
        "A job lets the version and the champion answer the gate, a held-out set, and moves the alias only if the "
        "lead is no chance. If it is not better, the champion stays and the history says why. The endpoint follows.",
    ),
    "rollback": (
        *("Roll back?", "Roll back"),
        "A job gives the alias back to the champion before, without a gate. The endpoint follows the alias.",
    ),
}


def add_models(router: APIRouter, site: Site) -> None:
    """Adds them to the router."""
    _cards(router, site)
    _pictures(router, site)
    _moves(router, site)


def _find(site: Site, name: str, version: str = "") -> tuple[Model, Version | None]:
    try:
        return models.find(site, name, version)
    except UserError as wrong:
        raise HTTPException(404, str(wrong)) from None


def _cards(router: APIRouter, site: Site) -> None:
    @router.get("/models")
    def every(request: Request) -> Response:
        visitor = site.visitor(request)
        try:
            found, problem = [models.shown(visitor.person, one) for one in site.tracking.models()], ""
        except ServiceError as wrong:
            found, problem = [], str(wrong)
        served = {str(one.get("name")): str(one.get("version")) for one in models.serving(site).values()}
        return site.page(request, visitor, "models.html", models=found, problem=problem, served=served)

    @router.get("/models/{name}")
    def card(request: Request, name: Name, version: Number = "") -> Response:
        visitor = site.visitor(request)
        try:
            content = models.card(site, visitor.person, name, version)
        except UserError as wrong:
            raise HTTPException(404, str(wrong)) from None
        return site.page(request, visitor, "model.html", **content)


def _pictures(router: APIRouter, site: Site) -> None:
    @router.get("/models/{name}/pictures/{word}")
    def one(request: Request, name: Name, word: str, version: Number = "") -> Response:
        visitor = site.visitor(request)
        model, chosen = _find(site, name, version)
        able = word in PICTURES and models.sees_texts(site, visitor.person, model)
        content = picture(site, chosen, word) if chosen and able else None
        if content is None:
            raise HTTPException(404, "There is no such picture.")
        return Response(content, media_type="image/png", headers=HEADERS)


def _moves(router: APIRouter, site: Site) -> None:
    @router.get("/models/{name}/{action}")
    def ask(request: Request, name: Name, action: str, version: Number = "") -> Response:
        if action not in ASKS:
            raise HTTPException(404, "There is no such page.")
        visitor = site.visitor(request, "submitter")
        model, chosen = _find(site, name, version)
        if chosen is None:
            raise HTTPException(404, f"{name} has no version yet")
        question, button, what = ASKS[action]
        champion = model.aliases.get("champion")
        now = f"the champion is version {champion}" if champion else "there is no champion yet"
        page = f"/models/{quote(name, safe='')}"
        back = f"{page}?version={chosen.number}"
        more: dict[str, Any] = {
            **{"question": question, "button": button, "what": what, "action": f"{page}/{action}", "leave": back},
            **{"title": f"{name} {chosen.number}" if action == "promote" else name, "about": f"{now}."},
            **{"above": [("/models", "Models"), (back, name)], "moves": action, "version": chosen.number},
            "gates": promoting.gates(site, visitor.person, chosen) if action == "promote" else [],
        }
        return site.page(request, visitor, "ask_move.html", **more)

    @router.post("/models/{name}/{action}")
    async def act(request: Request, name: Name, action: str) -> Response:
        visitor, sent = await site.form(request)
        version, shards, why = (str(sent.get(key, "")).strip() for key in ("version", "shards", "reason"))

        def do() -> Job:
            if action not in ASKS:
                raise HTTPException(404, "There is no such page.")
            model, _ = _find(site, name)
            if action == "promote":
                return promoting.promote(site, visitor.person, model, version, shards)
            return promoting.roll_back(site, visitor.person, model, why)

        job = await run_in_threadpool(do)
        return RedirectResponse(f"/jobs/{job.id}?done=submit", 303)
