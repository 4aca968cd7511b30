"""The pages of models: the registered ones, and a card of each version with origin, scores and history."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import httpx
from sqlalchemy import select

from dragoman.model.errors import UserError, reason
from dragoman.model.languages import languages_of
from dragoman.services.jobs.ledger.access import OTHERS, Person
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.pages import promoting
from dragoman.services.jobs.pages.evaluated import Evaluated, evaluated
from dragoman.services.jobs.pages.shards import address
from dragoman.services.jobs.pages.site import Link, Site
from dragoman.services.jobs.service.tracking import Model, Version

PATIENCE = 30.0  # seconds for the endpoint's answer
LONGEST = 2000  # characters of a trial
TROUBLE = 300  # characters of the endpoint's own error
KINDS = {
    **{"translation": "Translation", "vectors": "Word vectors", "language": "Language model"},
    "masked": "Masked language model",
    "labels": "Labels of texts",
}
PARENTS = {  # tag of `dragoman.model.bundles.ancestry`, or the part of it before a dot -> its label
    "train.init_from": "Weights",
    "train.init_parts": "Weights of",
    "train.lora": "Low-rank factors",
    "train.teachers": "Teachers",
    "embeddings": "Word vectors of",
    "tokenizer.same_as": "Tokenizer",
}
REGISTERED = re.compile(r"(?:models:/)?([\w.+-]+)[@/]([\w.+-]+) \(")  # MODEL@ALIAS or MODEL/VERSION, then its digest
TRIED = ("translation", "vectors")  # kinds that the page can try at the endpoint
FACTS = {  # tag -> its label
    "owner": "Owner",
    **{"pair": "Languages", "architecture": "Network", "method": "Method", "vocabulary": "Vocabulary"},
    **{"words": "Words", "width": "Width", "run_name": "Run's name", "bundle_bytes": "Bundle"},
    "author": "Author",
}


@dataclass(frozen=True)
class Trial:
    """A text sent to the endpoint, its answer, and the version that answered."""

    text: str = ""
    answer: str = ""
    origin: str = ""
    problem: str = ""


def card(site: Site, person: Person, name: str, number: str = "") -> dict[str, Any]:
    """Returns the content of a model's page; by default of the champion, else of the newest version.

    Raises:
        UserError: there is no such model or version.
        ServiceError: MLflow does not answer.
    """
    found, version = find(site, name, number)
    model = shown(person, found)
    tags = _hide_author(person, version.tags) if version else {}
    facts = _facts({"owner": model.owner, **tags})
    kind = tags.get("bundle_kind", "translation")
    answering = ask_endpoint(site)
    served = answering.by_kind.get(kind, {})
    mapped = version is not None and kind == "vectors" and sees_texts(site, person, found)
    return {
        "map": f"/models/{quote(name, safe='')}/words?version={version.number}" if version and mapped else "",
        **{"model": model, "version": version, "lineage": _lineage(site, person, version) if version else []},
        **{"kind": KINDS.get(kind, kind), "facts": facts, "served": served, "trial": Trial()},
        **{"tries": kind if kind in TRIED and served.get("name") == name else "", "tags": tags},
        **{"triable": kind in TRIED and bool(site.endpoint)},
        "jobs": _jobs_of(site, person, model.versions),
        **{"answering": answering, "parents": _parents(tags), "asked": promoting.asked(site, person, name)},
        "evaluated": evaluated(site, version) if version and sees_texts(site, person, found) else Evaluated(),
        "why_not": promoting.why_not(site, person, found),
    }


def find(site: Site, name: str, number: str = "") -> tuple[Model, Version | None]:
    """Returns a model as MLflow has it, and one of its versions: by default the champion, else the newest.

    Raises:
        UserError: there is no such model or version.
        ServiceError: MLflow does not answer.
    """
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


def _lineage(site: Site, person: Person, version: Version) -> list[Link]:
    tags, runs = version.tags, site.tracking.run_page
    steps = []
    digest = tags.get("manifest_hash", "")
    if digest:
        folder = site.shards.with_digest(person, digest)
        page = address(folder) if folder else runs(tags.get("shard_run_id", ""))
        steps.append(Link("Shards", folder.name if folder else digest[:12], page, outside=folder is None))
    if tags.get("config_hash"):
        page = runs(version.run, "artifacts/config.yaml")
        steps.append(Link("Configuration", tags["config_hash"][:12], page, outside=True))
    job = _job_of(site, person, version)
    if job:
        steps.append(Link("Job", job, f"/jobs/{job}"))
    steps.append(Link("Run", tags.get("run_name") or version.run[:12], runs(version.run), outside=True))
    if tags.get("git_commit"):
        steps.append(Link("Commit", tags["git_commit"][:10]))
    steps.append(Link("Bundle", tags.get("bundle_hash", "–")[:12]))
    page = site.tracking.version_page(version.model, version.number)
    return [*steps, Link("Version", f"{version.model} {version.number}", page, outside=True)]


def _parents(tags: Mapping[str, str]) -> list[Link]:
    """Returns the models that gave weights, probabilities, vectors or a tokenizer; a registered one has its page."""
    found = []
    for key, label in PARENTS.items():
        for name in sorted(one for one in tags if one == key or one.startswith(f"{key}.")):
            registered = REGISTERED.match(tags[name])
            page = ""
            if registered:
                version = f"?version={registered[2]}" if registered[2].isdecimal() else ""
                page = f"/models/{quote(registered[1], safe='')}{version}"
            found.append(Link(f"{label}{name.removeprefix(key).replace('.', ' ')}", tags[name], page))
    return found


def _job_of(site: Site, person: Person, version: Version) -> str:
    """Returns the job that made the version: from its tag, or for older runs the job that trained its run."""
    with site.operations.ledger.database.read() as session:
        query = select(Job.id, Job.owner, Job.project).order_by(Job.seq.desc()).limit(1)
        named = version.tags.get("dragoman.job")
        if named:
            found = session.execute(query.where(Job.id == named)).first()
        else:
            found = session.execute(query.where(Job.run == f"run {version.tags.get('run_name')}")).first()
    return str(found.id) if found and person.sees_job(found) else ""


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


def attempt(site: Site, kind: str, pair: str, text: str) -> Trial:
    """Sends a text to the endpoint; shows a refusal beside the form."""
    if not text.strip():
        return Trial(text, problem="Write something first.")
    if len(text) > LONGEST:
        return Trial(text, problem=f"At most {LONGEST:,} characters.")
    try:
        answer = _ask(site.endpoint, kind, pair, text)
        found = answer.json()
    except (httpx.HTTPError, ValueError) as problem:
        return Trial(text, problem=f"The endpoint does not answer: {reason(problem)}")
    if answer.is_error:
        said = found.get("error") if isinstance(found, dict) else ""
        return Trial(text, problem=str(said or f"The endpoint answers {answer.status_code}."))
    name, version = answer.headers.get("x-model-name", ""), answer.headers.get("x-model-version", "")
    return Trial(text, _told(kind, found), f"{name} version {version}" if name else "")


def _ask(endpoint: str, kind: str, pair: str, text: str) -> httpx.Response:
    if kind == "vectors":
        return httpx.post(f"{endpoint}/neighbours", json={"word": text.strip(), "k": 8}, timeout=PATIENCE)
    source, target = languages_of(pair)
    asked = {"q": text, "source": source, "target": target}
    return httpx.post(f"{endpoint}/translate", json=asked, timeout=PATIENCE)


def _told(kind: str, found: Any) -> str:
    if kind != "vectors":
        return str(found.get("translatedText", ""))
    rows = found.get("neighbours") or []
    pairs = [(one.get("word"), one.get("similarity")) for one in rows if isinstance(one, dict)]
    return "\n".join(f"{word}  {value:.3f}" for word, value in pairs) or json.dumps(found)
