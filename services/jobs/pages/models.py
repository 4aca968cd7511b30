"""The pages of models: the registered ones, and a card of each version with scores and history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from sqlalchemy import select

from dragoman.model.errors import UserError, reason
from dragoman.services.jobs.ledger.access import OTHERS, Person
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.pages import promoting
from dragoman.services.jobs.pages.evaluated import Evaluated, evaluated
from dragoman.services.jobs.pages.site import Link, Site
from dragoman.services.jobs.service.tracking import Model, Version

TROUBLE = 300  # characters of the endpoint's own error
KINDS = {
    **{"translation": "Translation", "vectors": "Word vectors", "language": "Language model"},
    "masked": "Masked language model",
    "labels": "Labels of texts",
}
FACTS = {  # tag -> its label
    "owner": "Owner",
    **{"pair": "Languages", "architecture": "Network", "method": "Method", "vocabulary": "Vocabulary"},
    **{"words": "Words", "width": "Width", "run_name": "Run's name", "bundle_bytes": "Bundle"},
    "author": "Author",
}


def card(site: Site, person: Person, name: str, number: str = "") -> dict[str, Any]:
    """Returns the content of a model's page; by default of the champion, else of the newest version."""
    found, version = find(site, name, number)
    model = shown(person, found)
    tags = _hide_author(person, version.tags) if version else {}
    facts = _facts({"owner": model.owner, **tags})
    kind = tags.get("bundle_kind", "translation")
    answering = ask_endpoint(site)
    served = answering.by_kind.get(kind, {})
    return {
        "model": model,
        "version": version,
        "links": _links(site, version) if version else [],
        "kind": KINDS.get(kind, kind),
        "facts": facts,
        "served": served,
        "jobs": _jobs_of(site, person, model.versions),
        "answering": answering,
        "asked": promoting.asked(site, person, name),
        "evaluated": evaluated(site, version) if version and sees_texts(site, person, found) else Evaluated(),
        "why_not": promoting.why_not(site, person, found),
    }


def find(site: Site, name: str, number: str = "") -> tuple[Model, Version | None]:
    """Returns a model as MLflow has it, and one of its versions: by default the champion, else the newest."""
    model = site.tracking.model(name)
    if model is None:
        raise UserError(f"there is no registered model {name!r}")
    version = _chosen(model, number)
    if number and version is None:
        raise UserError(f"{name} has no version {number}")
    return model, version


def sees_texts(site: Site, person: Person, model: Model) -> bool:
    """Returns True if a user may see texts of the corpus that a model was evaluated on: its owner's."""
    owner = promoting.owner_of(site, model)
    return not owner or person.sees(owner)


def _chosen(model: Model, number: str) -> Version | None:
    wanted = number or model.aliases.get("champion", "")
    found = next((one for one in model.versions if one.number == wanted), None)
    return found or (None if number or not model.versions else model.versions[0])


def _facts(tags: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(label, tags[key]) for key, label in FACTS.items() if tags.get(key)]


def _links(site: Site, version: Version) -> list[Link]:
    """Returns the version and its run in MLflow, which know where the version is from."""
    page = site.tracking.version_page(version.model, version.number)
    run = site.tracking.run_page(version.run)
    return [Link("Version", f"{version.model} {version.number}", page), Link("Run", version.run[:12], run)]


def _jobs_of(site: Site, person: Person, versions: Sequence[Version]) -> dict[str, str]:
    """Returns version -> the job that made it, empty if the user may not see it."""
    named = {one.number: one.tags.get("dragoman.job", "") for one in versions}
    with site.operations.ledger.database.read() as session:
        query = select(Job.id, Job.owner, Job.project).where(Job.id.in_(set(named.values())))
        seen = {str(row.id) for row in session.execute(query) if person.sees_job(row)}
    return {number: job if job in seen else "" for number, job in named.items()}


def shown(person: Person, model: Model) -> Model:
    """Returns the model as the user may see it: without names and jobs of hidden owners."""
    moves = [replace(move, by=_author(person, move.by)) for move in model.moves]
    return replace(model, moves=moves, owner=person.name_of(model.owner) if model.owner else "")


def _hide_author(person: Person, tags: Mapping[str, str]) -> dict[str, str]:
    """Returns a version's tags, without the name of a hidden author."""
    return {key: person.name_of(value) if key == "author" else value for key, value in tags.items()}


def _author(person: Person, by: str) -> str:
    """Returns `user@machine` of a move, without a hidden user."""
    user, _, machine = by.rpartition("@")
    return by if person.name_of(user) == user else f"{OTHERS}@{machine}"


@dataclass(frozen=True)
class Answering:
    """The models that the endpoint serves: kind -> the one that answers, name -> version of all; or its `trouble`."""

    by_kind: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""


def serving(site: Site) -> Mapping[str, dict[str, Any]]:
    """Returns kind -> the endpoint's facts about the model that answers; empty if it does not answer."""
    return ask_endpoint(site).by_kind


def ask_endpoint(site: Site) -> Answering:
    """Returns what the endpoint's `/status` says."""
    if not site.endpoint:
        return Answering(trouble="this service has no endpoint")
    try:
        answer = httpx.get(f"{site.endpoint}/status", timeout=2.0)
        found = answer.json()
    except (httpx.HTTPError, ValueError) as problem:
        return Answering(trouble=f"the endpoint cannot be reached ({reason(problem)})")
    told = found if isinstance(found, dict) else {}
    trouble = ""
    if answer.is_error:
        error = str(told.get("reload_error") or "")[:TROUBLE]
        trouble = f"the endpoint answers {answer.status_code}{f': {error}' if error else ''}"
    others = (told.get(key) for key in ("vectors", "encoder", "labels", "guesser"))
    several: Any = told.get("models") if isinstance(told.get("models"), list) else []
    every = [told.get("model"), *several, *(one.get("model") for one in others if isinstance(one, dict))]
    loaded = [one for one in every if isinstance(one, dict) and one.get("name") and one.get("loaded", True)]
    vectors = told.get("vectors")
    models = {"translation": told.get("model"), "vectors": vectors.get("model") if isinstance(vectors, dict) else None}
    by_kind = {kind: model for kind, model in models.items() if isinstance(model, dict)}
    return Answering(by_kind, {str(one["name"]): str(one.get("version")) for one in reversed(loaded)}, trouble)
