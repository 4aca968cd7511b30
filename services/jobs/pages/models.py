"""The pages of models: the registered ones, a card of each version with what its evaluation left, moving the alias."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any
from urllib.parse import quote

import httpx
from fastapi import HTTPException, Path, Query, Response
from fastapi.responses import RedirectResponse
from sqlalchemy import select

from dragoman.model.errors import ServiceError, reason
from dragoman.services.jobs.ledger.access import OTHERS, Person
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.pages import promoting
from dragoman.services.jobs.pages.site import (
    HEADERS,
    Link,
    Page,
    PageContext,
    Question,
    Submitter,
    SubmitterForm,
    Viewer,
    page_router,
)
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
router = page_router()
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
ASKS = {
    "promote": Question(
        "Promote this version?",
        "Promote it",
        "A job lets the version and the champion answer the gate, a held-out set, and moves the alias only if the "
        "lead is no chance. If it is not better, the champion stays and the history says why. The endpoint follows.",
    ),
    "rollback": Question(
        "Roll back?",
        "Roll back",
        "A job gives the alias back to the champion before, without a gate. The endpoint follows the alias.",
    ),
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


Name = Annotated[str, Path(max_length=300)]
Number = Annotated[str, Query(max_length=20)]


@router.get("/models")
def every(page: Viewer) -> Response:
    try:
        models, problem = [shown(page.person, model) for model in page.site.tracking.models()], ""
    except ServiceError as wrong:
        models, problem = [], str(wrong)
    served = {str(model.get("name")): str(model.get("version")) for model in ask_endpoint(page.site).by_kind.values()}
    return page.show("models.html", models=models, problem=problem, served=served)


@router.get("/models/{name}")
def show(page: Viewer, name: Name, version: Number = "") -> Response:
    """Shows a version of a model; by default the champion, else the newest."""
    site, person = page.site, page.person
    own_model, chosen = _find(site, name, version)
    model = shown(person, own_model)
    tags = (
        {key: person.name_of(value) if key == "author" else value for key, value in chosen.tags.items()}
        if chosen
        else {}
    )
    kind = tags.get("bundle_kind", "translation")
    answering = ask_endpoint(site)
    facts = {"owner": model.owner, **tags}
    return page.show(
        "model.html",
        model=model,
        version=chosen,
        links=_links(site, chosen) if chosen else [],
        kind=KINDS.get(kind, kind),
        facts=[(label, facts[key]) for key, label in FACTS.items() if facts.get(key)],
        served=answering.by_kind.get(kind, {}),
        jobs=_jobs_of(page, model.versions),
        answering=answering,
        asked=promoting.asked(page, name),
        evaluated=evaluated(site, chosen) if chosen and sees_texts(page, own_model) else Evaluated(),
        why_not=promoting.why_not(page, own_model),
    )


@router.get("/models/{name}/pictures/{word}")
def show_picture(page: Viewer, name: Name, word: str, version: Number = "") -> Response:
    model, chosen = _find(page.site, name, version)
    able = chosen and word in PICTURES and sees_texts(page, model)
    content = picture(page.site, chosen, word) if chosen and able else None
    if content is None:
        raise HTTPException(404, "There is no such picture.")
    return Response(content, media_type="image/png", headers=HEADERS)


@router.get("/models/{name}/{action}")
def ask(page: Submitter, name: Name, action: str, version: Number = "") -> Response:
    if action not in ASKS:
        raise HTTPException(404, "There is no such page.")
    model, chosen = _find(page.site, name, version)
    if chosen is None:
        raise HTTPException(404, f"{name} has no version yet")
    champion = model.aliases.get("champion")
    return page.ask(
        ASKS[action],
        f"{name} {chosen.number}" if action == "promote" else name,
        f"the champion is version {champion}." if champion else "there is no champion yet.",
        ("/models", "Models"),
        (f"/models/{quote(name, safe='')}?version={chosen.number}", name),
        form="ask_move.html",
        moves=action,
        version=chosen.number,
        gates=promoting.gates(page, chosen) if action == "promote" else [],
    )


@router.post("/models/{name}/{action}")
def move(page: SubmitterForm, name: Name, action: str) -> Response:
    if action not in ASKS:
        raise HTTPException(404, "There is no such page.")
    model, _ = _find(page.site, name)
    job = promoting.promote(page, model) if action == "promote" else promoting.roll_back(page, model)
    return RedirectResponse(f"/jobs/{job.id}?done=submit", 303)


def _find(site: PageContext, name: str, number: str = "") -> tuple[Model, Version | None]:
    """Returns a model as MLflow has it, and one of its versions: by default the champion, else the newest.

    Raises HTTPException (404): there is no such model or version.
    """
    model = site.tracking.model(name)
    if model is None:
        raise HTTPException(404, f"there is no registered model {name!r}")
    wanted = number or model.aliases.get("champion", "")
    version = next((version for version in model.versions if version.number == wanted), None)
    if number and version is None:
        raise HTTPException(404, f"{name} has no version {number}")
    return model, version or next(iter(model.versions), None)


def sees_texts(page: Page, model: Model) -> bool:
    """Returns True if the visitor may see texts of the corpus that a model was evaluated on: its owner's."""
    owner = promoting.owner_of(page.site, model)
    return not owner or page.person.sees(owner)


def _links(site: PageContext, version: Version) -> list[Link]:
    """Returns the version and its run in MLflow, which know where the version is from."""
    page = site.tracking.version_page(version.model, version.number)
    run = site.tracking.run_page(version.run)
    return [Link("Version", f"{version.model} {version.number}", page), Link("Run", version.run[:12], run)]


def _jobs_of(page: Page, versions: Sequence[Version]) -> dict[str, str]:
    """Returns version -> the job that made it, empty if the user may not see it."""
    named = {version.number: version.tags.get("dragoman.job", "") for version in versions}
    with page.operations.ledger.database.read() as session:
        query = select(Job.id, Job.owner, Job.project).where(Job.id.in_(set(named.values())))
        seen = {str(row.id) for row in session.execute(query) if page.person.sees_job(row)}
    return {number: job if job in seen else "" for number, job in named.items()}


def shown(person: Person, model: Model) -> Model:
    """Returns the model as the user may see it: without names and jobs of hidden owners."""
    moves = [replace(move, by=_author(person, move.by)) for move in model.moves]
    return replace(model, moves=moves, owner=person.name_of(model.owner) if model.owner else "")


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


def ask_endpoint(site: PageContext) -> Answering:
    """Returns what the endpoint's `/status` says."""
    if not site.endpoint:
        return Answering(trouble="this service has no endpoint")
    try:
        answer = httpx.get(f"{site.endpoint}/status", timeout=2.0)
        status = answer.json()
    except (httpx.HTTPError, ValueError) as problem:
        return Answering(trouble=f"the endpoint cannot be reached ({reason(problem)})")
    status = status if isinstance(status, dict) else {}
    trouble = ""
    if answer.is_error:
        error = str(status.get("reload_error") or "")[:TROUBLE]
        trouble = f"the endpoint answers {answer.status_code}{f': {error}' if error else ''}"
    parts = {key: status.get(key) for key in ("vectors", "encoder", "labels", "guesser")}
    others: dict[str, Any] = {key: part.get("model") for key, part in parts.items() if isinstance(part, dict)}
    several = status.get("models")
    every = [status.get("model"), *(several if isinstance(several, list) else ()), *others.values()]
    loaded = [model for model in every if isinstance(model, dict) and model.get("name") and model.get("loaded", True)]
    models = {"translation": status.get("model"), "vectors": others.get("vectors")}
    by_kind = {kind: model for kind, model in models.items() if isinstance(model, dict)}
    return Answering(by_kind, {str(model["name"]): str(model.get("version")) for model in reversed(loaded)}, trouble)
