"""The pages of models: the registered ones, a card of each version with what its evaluation left, moving the alias."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any
from urllib.parse import quote

import httpx
from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse
from sqlalchemy import select

from dragoman.model.errors import ServiceError, UserError, reason
from dragoman.services.jobs.ledger.access import OTHERS, Person
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.pages import promoting
from dragoman.services.jobs.pages.site import HEADERS, Link, PageContext
from dragoman.services.jobs.service.tracking import Model, Version

PICTURES = {  # word of the address -> (artifact, caption)
    "attention": ("attention.png", "Attention on short samples: rows are the output's words, columns the source's"),
    "maps": ("alignment/maps.png", "The best attention on four sentences; frames are gold links"),
    "heads": ("alignment/heads.png", "All heads on one sentence"),
    "errors": ("alignment/errors.png", "Alignment error rate of every head"),
    "confusion": ("evaluation/confusion-test.png", "Labels that were taken for others"),
    "surprise": ("evaluation/surprise-test.png", "How well each line of the test set was predicted"),
    "curves": ("curves.png", "Training"),
}
TABLES = ("samples.json", "mistakes.json")  # the first that there is
MOST_SAMPLES, MOST_COLUMNS, LONGEST = 20, 6, 600
LARGEST, LARGEST_PICTURE = 1 << 20, 8 << 20  # bytes
PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Evaluated:
    """Samples as a table, the pictures that there are (word, caption), and why nothing is known."""

    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    pictures: Sequence[tuple[str, str]] = ()
    away: str = ""


def evaluated(site: PageContext, version: Version) -> Evaluated:
    """Returns the samples and pictures of a version's run."""
    if not version.run:
        return Evaluated()
    try:
        there = site.tracking.artifacts(version.run)
        for folder in sorted({path.partition("/")[0] for path, _ in PICTURES.values() if "/" in path} & there):
            there |= site.tracking.artifacts(version.run, folder)
        name = next((name for name in TABLES if name in there), None)
        table = site.tracking.artifact(version.run, name, LARGEST) if name else None
    except ServiceError as problem:
        return Evaluated(away=str(problem))
    columns, rows = _table(table) if table else ([], [])
    return Evaluated(columns, rows, [(word, title) for word, (path, title) in PICTURES.items() if path in there])


def picture(site: PageContext, version: Version, word: str) -> bytes | None:
    """Returns the PNG file of a picture of `PICTURES`; None if there is none."""
    picture_bytes = site.tracking.artifact(version.run, PICTURES[word][0], LARGEST_PICTURE) if version.run else None
    return picture_bytes if picture_bytes is not None and picture_bytes.startswith(PNG) else None


def _table(content: bytes) -> tuple[list[str], list[list[str]]]:
    """Returns columns and rows of a table as text; both empty if it is none."""
    try:
        content_read: Any = json.loads(content)
    except (ValueError, RecursionError):
        return [], []
    if not isinstance(content_read, Mapping) or not all(
        isinstance(content_read.get(key), list) for key in ("columns", "data")
    ):
        return [], []
    columns = [str(column)[:LONGEST] for column in content_read["columns"][:MOST_COLUMNS]]
    rows = [row for row in content_read["data"][:MOST_SAMPLES] if isinstance(row, list) and len(row) >= len(columns)]
    return columns, [[str(cell)[:LONGEST] for cell in row[: len(columns)]] for row in rows]


TROUBLE = 300  # characters of the endpoint's own error
KINDS = {
    "translation": "Translation",
    "vectors": "Word vectors",
    "language": "Language model",
    "masked": "Masked language model",
    "labels": "Labels of texts",
}
FACTS = {  # tag -> its label
    "owner": "Owner",
    "pair": "Languages",
    "architecture": "Network",
    "method": "Method",
    "vocabulary": "Vocabulary",
    "words": "Words",
    "width": "Width",
    "run_name": "Run's name",
    "bundle_bytes": "Bundle",
    "author": "Author",
}


def card(site: PageContext, person: Person, name: str, number: str = "") -> dict[str, Any]:
    """Returns the content of a model's page; by default of the champion, else of the newest version."""
    own_model, version = find(site, name, number)
    model = shown(person, own_model)
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
        "evaluated": evaluated(site, version) if version and sees_texts(site, person, own_model) else Evaluated(),
        "why_not": promoting.why_not(site, person, own_model),
    }


def find(site: PageContext, name: str, number: str = "") -> tuple[Model, Version | None]:
    """Returns a model as MLflow has it, and one of its versions: by default the champion, else the newest."""
    model = site.tracking.model(name)
    if model is None:
        raise UserError(f"there is no registered model {name!r}")
    version = _chosen(model, number)
    if number and version is None:
        raise UserError(f"{name} has no version {number}")
    return model, version


def sees_texts(site: PageContext, person: Person, model: Model) -> bool:
    """Returns True if a user may see texts of the corpus that a model was evaluated on: its owner's."""
    owner = promoting.owner_of(site, model)
    return not owner or person.sees(owner)


def _chosen(model: Model, number: str) -> Version | None:
    number_chosen = number or model.aliases.get("champion", "")
    own_version = next((version for version in model.versions if version.number == number_chosen), None)
    return own_version or (None if number or not model.versions else model.versions[0])


def _facts(tags: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(label, tags[key]) for key, label in FACTS.items() if tags.get(key)]


def _links(site: PageContext, version: Version) -> list[Link]:
    """Returns the version and its run in MLflow, which know where the version is from."""
    page = site.tracking.version_page(version.model, version.number)
    run = site.tracking.run_page(version.run)
    return [Link("Version", f"{version.model} {version.number}", page), Link("Run", version.run[:12], run)]


def _jobs_of(site: PageContext, person: Person, versions: Sequence[Version]) -> dict[str, str]:
    """Returns version -> the job that made it, empty if the user may not see it."""
    named = {version.number: version.tags.get("dragoman.job", "") for version in versions}
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


def serving(site: PageContext) -> Mapping[str, dict[str, Any]]:
    """Returns kind -> the endpoint's facts about the model that answers; empty if it does not answer."""
    return ask_endpoint(site).by_kind


def ask_endpoint(site: PageContext) -> Answering:
    """Returns what the endpoint's `/status` says."""
    if not site.endpoint:
        return Answering(trouble="this service has no endpoint")
    try:
        answer = httpx.get(f"{site.endpoint}/status", timeout=2.0)
        status = answer.json()
    except (httpx.HTTPError, ValueError) as problem:
        return Answering(trouble=f"the endpoint cannot be reached ({reason(problem)})")
    models_status = status if isinstance(status, dict) else {}
    trouble = ""
    if answer.is_error:
        error = str(models_status.get("reload_error") or "")[:TROUBLE]
        trouble = f"the endpoint answers {answer.status_code}{f': {error}' if error else ''}"
    others = (models_status.get(key) for key in ("vectors", "encoder", "labels", "guesser"))
    several: Any = models_status.get("models") if isinstance(models_status.get("models"), list) else []
    every = [models_status.get("model"), *several, *(other.get("model") for other in others if isinstance(other, dict))]
    loaded = [model for model in every if isinstance(model, dict) and model.get("name") and model.get("loaded", True)]
    vectors = models_status.get("vectors")
    models = {
        "translation": models_status.get("model"),
        "vectors": vectors.get("model") if isinstance(vectors, dict) else None,
    }
    by_kind = {kind: model for kind, model in models.items() if isinstance(model, dict)}
    return Answering(by_kind, {str(model["name"]): str(model.get("version")) for model in reversed(loaded)}, trouble)


Name = Annotated[str, Path(max_length=300)]
Number = Annotated[str, Query(max_length=20)]
ASKS = {
    "promote": (
        "Promote this version?",
        "Promote it",
        "A job lets the version and the champion answer the gate, a held-out set, and moves the alias only if the "
        "lead is no chance. If it is not better, the champion stays and the history says why. The endpoint follows.",
    ),
    "rollback": (
        "Roll back?",
        "Roll back",
        "A job gives the alias back to the champion before, without a gate. The endpoint follows the alias.",
    ),
}


def add_models(router: APIRouter, site: PageContext) -> None:
    _cards(router, site)
    _pictures(router, site)
    _moves(router, site)


def _find(site: PageContext, name: str, version: str = "") -> tuple[Model, Version | None]:
    try:
        return find(site, name, version)
    except UserError as wrong:
        raise HTTPException(404, str(wrong)) from None


def _cards(router: APIRouter, site: PageContext) -> None:
    @router.get("/models")
    def every(request: Request) -> Response:
        visitor = site.visitor(request)
        try:
            models_shown, problem = [shown(visitor.person, model) for model in site.tracking.models()], ""
        except ServiceError as wrong:
            models_shown, problem = [], str(wrong)
        served = {
            str(model_served.get("name")): str(model_served.get("version")) for model_served in serving(site).values()
        }
        return site.page(request, visitor, "models.html", models=models_shown, problem=problem, served=served)

    @router.get("/models/{name}")
    def show_card(request: Request, name: Name, version: Number = "") -> Response:
        visitor = site.visitor(request)
        try:
            content = card(site, visitor.person, name, version)
        except UserError as wrong:
            raise HTTPException(404, str(wrong)) from None
        return site.page(request, visitor, "model.html", **content)


def _pictures(router: APIRouter, site: PageContext) -> None:
    @router.get("/models/{name}/pictures/{word}")
    def one(request: Request, name: Name, word: str, version: Number = "") -> Response:
        visitor = site.visitor(request)
        model, chosen = _find(site, name, version)
        able = word in PICTURES and sees_texts(site, visitor.person, model)
        content = picture(site, chosen, word) if chosen and able else None
        if content is None:
            raise HTTPException(404, "There is no such picture.")
        return Response(content, media_type="image/png", headers=HEADERS)


def _moves(router: APIRouter, site: PageContext) -> None:
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
            "question": question,
            "button": button,
            "what": what,
            "action": f"{page}/{action}",
            "title": f"{name} {chosen.number}" if action == "promote" else name,
            "about": f"{now}.",
            "above": [("/models", "Models"), (back, name)],
            "moves": action,
            "version": chosen.number,
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
