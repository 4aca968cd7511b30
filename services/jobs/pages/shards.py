"""The pages of shards: their list, and of each its sources, how much cleaning dropped, and its users."""

import json
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import Path, Query, Response
from sqlalchemy import String, cast, func, select

from dragoman.model.errors import ServiceError, UserError
from dragoman.model.runs import paths
from dragoman.model.shards.manifest import MANIFEST, Manifest
from dragoman.model.shards.verify import verified_at
from dragoman.model.untrusted import read_object
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.pages.site import Link, Page, PageContext, Viewer, page_router
from dragoman.services.jobs.service.shard_folders import MADE, Folder, sharding_run
from dragoman.services.jobs.service.tracking import Version

ROWS = 50  # folders of the list
SOURCES = 200  # files in the table
USERS = 20  # jobs and versions that used the shards
LOOKED_AT = 5000  # newest jobs among which users are looked for
USE = ("train", "evaluate", "compare", "promote", "unpack", "synthesize")  # commands that read shards
SPLITS = ("train", "valid", "test", "gate")  # as they are shown
router = page_router()


def address(folder: Folder) -> str:
    return f"/shards/{quote(folder.name)}"


@router.get("/shards")
def every(
    page: Viewer, q: Annotated[str, Query(max_length=200)] = "", start: Annotated[int, Query(ge=0, le=2**53)] = 0
) -> Response:
    """Shows the folders whose name, corpus or languages hold `q`, from number `start` on."""
    site, person, text = page.site, page.person, q.strip()
    every = site.shards.all(person)
    folders = [folder for folder in map(site.shards.read, every) if text.lower() in _words(folder)] if text else every
    rows = list(map(site.shards.read, folders[start : start + ROWS]))
    more = start + ROWS
    return page.show(
        "shards.html",
        rows=rows,
        makers=_makers(site, person, rows),
        text=text,
        total=len(folders),
        any=bool(every),
        start=start,
        address=address,
        more=f"/shards?{urlencode({'q': text, 'start': more})}" if more < len(folders) else "",
    )


def _words(folder: Folder) -> str:
    facts = folder.summary
    return (
        f"{folder.name} {facts.corpus} {'-'.join(facts.languages)} {facts.tokenizer}".lower() if facts else folder.name
    )


def _makers(site: PageContext, person: Person, folders: list[Folder]) -> dict[str, Job]:
    """Returns name -> the newest job that wrote the folder, of those that the user may see."""
    names = {f"{MADE}{folder.path}": folder.name for folder in folders}
    newest = select(func.max(Job.seq)).where(Job.verb == "shard", Job.run.in_(names)).group_by(Job.run)
    jobs = site.operations.ledger.database.all(select(Job).where(Job.seq.in_(newest)))
    return {names[job.run]: job for job in jobs if person.sees_job(job)}


@router.get("/shards/{name:path}")
def show(page: Viewer, name: Annotated[str, Path(max_length=1000)]) -> Response:
    folder = page.site.shards.find(page.person, name)
    if folder.summary is None:
        problem = folder.problem or f"There is no {MANIFEST} yet: sharding has not finished, or was interrupted."
        return page.show("shard.html", folder=folder, manifest=None, problem=problem)
    try:
        manifest = page.site.shards.manifest(folder)
    except UserError as wrong:
        return page.show("shard.html", 400, folder=folder, manifest=None, problem=str(wrong))
    return page.show("shard.html", folder=folder, manifest=manifest, **_card(page, folder, manifest))


def _card(page: Page, folder: Folder, manifest: Manifest) -> dict[str, Any]:
    models, away = _models(page.site, folder)
    train = manifest.splits.get("train")
    return {
        "facts": folder.summary,
        "splits": {name: manifest.splits[name].records for name in sorted(manifest.splits, key=_turn)},
        "kept": train.records if train else 0,
        "dropped": {
            split: dict(sorted(drops.items(), key=lambda item: -item[1])) for split, drops in manifest.dropped.items()
        },
        "sources": manifest.sources[:SOURCES],
        "more_sources": max(0, len(manifest.sources) - SOURCES),
        "links": _links(page.site, page.person, folder),
        "jobs": _users(page.site, page.person, folder),
        "models": models,
        "away": away,
        "verified": _verified(page.site, folder, manifest),
    }


def _turn(split: str) -> int:
    return SPLITS.index(split) if split in SPLITS else len(SPLITS)


def _links(site: PageContext, person: Person, folder: Folder) -> list[Link]:
    """Returns the job and the MLflow run that made the shards."""
    job = _makers(site, person, [folder]).get(folder.name)
    if job is None:
        return []
    run = sharding_run(job)
    return [
        Link("Made by job", job.id, f"/jobs/{job.id}"),
        *run_links(site, read_object(run / paths.TRACKED) if run else {}),
    ]


def run_links(site: PageContext, tracked: Mapping[str, Any]) -> list[Link]:
    """Returns the link to the MLflow run that a run's folder names; none if it names none."""
    if not tracked.get("run_id"):
        return []
    address = site.tracking.run_page(str(tracked["run_id"]))
    return [Link("MLflow run", str(tracked.get("name") or tracked["run_id"]), address, outside=True)]


def _users(site: PageContext, person: Person, folder: Folder) -> list[Job]:
    """Returns the newest jobs whose plan reads the folder, of the newest LOOKED_AT that the user may see."""
    place = json.dumps(str(folder.path))  # as the plan's JSON has it
    query = select(Job).where(Job.verb.in_(USE), cast(Job.plan, String).contains(place, autoescape=True))
    query = query.where(Job.seq > select(func.max(Job.seq)).scalar_subquery() - LOOKED_AT, *person.jobs())
    return site.operations.ledger.database.all(query.order_by(Job.seq.desc()).limit(USERS))


def _models(site: PageContext, folder: Folder) -> tuple[list[Version], str]:
    """Returns the registered versions whose jobs read this folder, and why they are not known.

    A version of no job of this service counts by the manifest's hash; that is equal for folders of equal content.
    """
    if folder.summary is None or not site.tracking.address:
        return [], ""
    try:
        versions = site.tracking.versions_with("manifest_hash", folder.summary.digest, USERS)
    except ServiceError as problem:
        return [], str(problem)
    names = [version.tags.get("dragoman.job", "") for version in versions]
    read = {
        job.id: [place["path"] for place in (job.plan or {}).get("places", ()) if place["key"] == "paths.shards"]
        for job in site.operations.ledger.database.all(select(Job).where(Job.id.in_(names)))
    }
    here = [str(folder.path)]
    return [version for version, name in zip(versions, names, strict=True) if here[0] in read.get(name, here)], ""


def _verified(site: PageContext, folder: Folder, manifest: Manifest) -> float | None:
    """Returns when a training last compared every byte with the manifest; None if not since they were made."""
    memory = site.home / "verified"
    named = site.home / "shards" / folder.name  # as commands name it, links not followed
    times = [verified_at(path, manifest, memory) for path in dict.fromkeys((folder.path, named))]
    return max((time_ for time_ in times if time_ is not None), default=None)
