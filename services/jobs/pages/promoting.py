"""Moving a model's served alias from its page: by a job of the verb `promote` or `rollback`, so by the same gate."""

import json
import re
from collections.abc import Sequence

from sqlalchemy import select

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.tables import Job, account_of
from dragoman.services.jobs.pages.jobpage import log_piece
from dragoman.services.jobs.pages.site import Page, PageContext, validated
from dragoman.services.jobs.service import schemas
from dragoman.services.jobs.service.shard_folders import Folder
from dragoman.services.jobs.service.tracking import Model, Version
from dragoman.services.jobs.states import ENDED

SHOWN = 10  # jobs
READ = 500  # newest shard folders, of which those with a gate are offered
LONGEST = 200  # characters of a reason
PLAIN = re.compile(r"[\w./+-]+")


def why_not(page: Page, model: Model) -> str:
    """Returns why a user may not move the alias of `model`; empty if they may, as far as the page knows.

    The planner and the job itself check it again.
    """
    person = page.person
    if not person.may("submitter"):
        return f"This needs the role submitter; yours is {person.role}."
    owner = owner_of(page.site, model)
    mine = person.may("admin") or owner in ("", person.owner) or _project(person, owner)
    return "" if mine else "Only the model's owner, members of its project, or an admin move the alias."


def _project(person: Person, owner: str) -> str:
    """Returns the project that owns a model, if the user is a member of it; else an empty text."""
    return next((name for name, _ in person.projects if account_of("", name) == owner), "")


def owner_of(site: PageContext, model: Model) -> str:
    """Returns the owner of a registered model as the ledger or MLflow has it; empty if neither knows."""
    return site.operations.loop.intake.ownership.names.owner(model.name) or model.owner


def asked(page: Page, model: str) -> list[tuple[Job, str]]:
    """Returns the newest jobs that were asked to move a model's alias, as the user may see, and what they said last."""
    query = select(Job).where(Job.verb.in_(("promote", "rollback")), Job.model == model, *page.person.jobs())
    jobs = page.operations.ledger.database.all(query.order_by(Job.seq.desc()).limit(SHOWN))
    return [(job, _said(page.site, job)) for job in jobs]


def _said(site: PageContext, job: Job) -> str:
    """Returns the last line of an ended job's log, which has the outcome; else the reason of its state."""
    lines = log_piece(site, job, job.attempt, None).text.split("\n") if job.state in ENDED and job.attempt else []
    return next((line.strip()[:1000] for line in reversed(lines) if line.strip()), job.reason)


def gates(page: Page, version: Version) -> list[Folder]:
    """Returns the shards that can be the gate of a version: of its languages, first those that it was trained on."""
    if version.tags.get("bundle_kind") == "vectors":
        return []
    pair, digest = version.tags.get("pair", ""), version.tags.get("manifest_hash", "")
    folders = [
        folder
        for folder in map(page.site.shards.read, page.site.shards.all(page.person)[:READ])
        if folder.summary
        and "-".join(folder.summary.languages) == pair
        and {"valid", "gate"} & folder.summary.records.keys()
    ]
    return sorted(folders, key=lambda folder: folder.summary is None or folder.summary.digest != digest)


def promote(page: Page, model: Model) -> Job:
    """Submits the promotion of the form's version, with the gate of its shard folder; without one with the default."""
    version, shards = page.text("version"), page.text("shards")
    if version not in [row.number for row in model.versions]:
        raise UserError(f"{model.name} has no version {version[:80]}")
    words = [f"promote.version={version}"]
    if shards:
        words.append(f"paths.shards={_quoted(str(page.site.shards.find(page.person, shards).path))}")
    return _submit(page, model, "promote", words)


def roll_back(page: Page, model: Model) -> Job:
    """Submits a rollback. Raises UserError if the model is another owner's."""
    reason = page.text("reason")
    return _submit(page, model, "rollback", [f"promote.reason={_quoted(reason[:LONGEST])}"] if reason else [])


def _submit(page: Page, model: Model, verb: str, words: Sequence[str]) -> Job:
    person = page.person
    plan, project = {"model": model.name, "verb": verb}, _project(person, owner_of(page.site, model))
    account = account_of(person.owner, project)
    page.operations.loop.intake.ownership.check(plan, person.owner, person.may("admin"), account)
    overrides = [f"registry.name={_quoted(model.name)}", *words]
    return page.operations.submit(
        person, validated(schemas.Submission, {"verb": verb, "overrides": overrides, "project": project})
    )


def _quoted(text: str) -> str:
    """Returns a text as a value of an override, whatever it holds."""
    return text if PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
