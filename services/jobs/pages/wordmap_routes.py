"""The routes of word vectors: those of a finished training, and those of a registered version.

/jobs/ID/words   /models/NAME/words
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Request, Response

from dragoman.model.errors import UserError
from dragoman.services.jobs.pages import models
from dragoman.services.jobs.pages.jobpage import title
from dragoman.services.jobs.pages.sessions import Visitor
from dragoman.services.jobs.pages.site import Site
from dragoman.services.jobs.pages.wordmap import Asked, job_bundle, version_bundle, wordmap
from dragoman.services.jobs.service import schemas

Above = Sequence[tuple[str, str]]  # address and words of the pages above


def add_wordmaps(router: APIRouter, site: Site) -> None:
    """Adds them to the router."""

    def show(
        request: Request, visitor: Visitor, place: Mapping[str, str], heading: str, above: Above, version: str = ""
    ) -> Response:
        found = wordmap(site, Asked.read(request.query_params), place)
        return site.page(request, visitor, "wordmap.html", title=heading, above=above, version=version, **found)

    @router.get("/jobs/{id}/words")
    def of_job(request: Request, id: Annotated[str, Path(max_length=40, pattern=schemas.NAME)]) -> Response:
        visitor = site.visitor(request)
        job, folder = job_bundle(site, visitor.person, id)
        above = [("/", "Jobs"), (f"/jobs/{id}", id)]
        return show(request, visitor, {"folder": str(folder)}, title(job), above)

    @router.get("/models/{name}/words")
    def of_version(request: Request, name: Annotated[str, Path(max_length=300)], version: str = "") -> Response:
        visitor = site.visitor(request)
        try:
            model, chosen = models.find(site, name, version)
        except UserError as wrong:
            raise HTTPException(404, str(wrong)) from None
        able = chosen is not None and chosen.tags.get("bundle_kind") == "vectors"
        if chosen is None or not able or not models.sees_texts(site, visitor.person, model):
            raise HTTPException(404, f"{name} {version}: there are no such word vectors.")
        above = [("/models", "Models"), (f"/models/{name}?version={chosen.number}", f"{name} {chosen.number}")]
        return show(request, visitor, version_bundle(site, chosen), name, above, chosen.number)
