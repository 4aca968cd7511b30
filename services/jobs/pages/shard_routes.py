"""The routes of shards: their list, and a page for each folder.

/shards   /shards/NAME
"""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from dragoman.model.errors import UserError
from dragoman.services.jobs.pages import shards
from dragoman.services.jobs.pages.site import Site

Number = Annotated[int, Query(ge=0, le=2**53)]
Text = Annotated[str, Query(max_length=200)]


def add_shards(router: APIRouter, site: Site) -> None:
    """Adds them to the router."""

    @router.get("/shards")
    def every(request: Request, q: Text = "", start: Number = 0) -> Response:
        visitor = site.visitor(request)
        return site.page(request, visitor, "shards.html", **shards.listing(site, visitor.person, q.strip(), start))

    @router.get("/shards/{name:path}")
    def one(request: Request, name: Annotated[str, Path(max_length=1000)]) -> Response:
        visitor = site.visitor(request)
        folder = site.shards.find(visitor.person, name)
        shown: dict[str, Any] = {"folder": folder, "manifest": None}
        if folder.summary is None:
            return site.page(request, visitor, "shard.html", problem=shards.unfinished(folder), **shown)
        try:
            more = shards.card(site, visitor.person, folder)
        except UserError as wrong:
            return site.page(request, visitor, "shard.html", 400, problem=str(wrong), **shown)
        return site.page(request, visitor, "shard.html", **more)
