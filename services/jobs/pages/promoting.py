"""Moving a model's served alias from its page: by a job of the verb `promote` or `rollback`, so by the same gate."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.tables import Job, account_of
from dragoman.services.jobs.pages.jobpage import log_piece
from dragoman.services.jobs.pages.site import PageContext, validated
from dragoman.services.jobs.service import schemas
from dragoman.services.jobs.service.shard_folders import Folder
from dragoman.services.jobs.service.tracking import Model, Version
from dragoman.services.jobs.states import ENDED

SHOWN = 10  # jobs
READ = 500  # newest shard folders, of which those with a gate are offered
LONGEST = 200  # characters of a reason
PLAIN = re.compile(r"[\w./+-]+")


@dataclass(frozen=True)
class AliasJob:
    """A job that was asked to move the alias, and what it said at its end."""

    job: Job
    said: str


def why_not(site: PageContext, person: Person, model: Model) -> str:
    """Returns why a user may not move the alias of `model`; empty if they may, as far as the page knows.

    The planner and the job itself check it again.
    """
    if not person.may("submitter"):
        return f"This needs the role submitter; yours is {person.role}."
    owner = owner_of(site, model)
    mine = person.may("admin") or owner in ("", person.owner) or _project(person, owner)
    return "" if mine else "Only the model's owner, members of its project, or an admin move the alias."


def _project(person: Person, owner: str) -> str:
    """Returns the project that owns a model, if the user is a member of it; else an empty text."""
    return next((name for name, _ in person.projects if account_of("", name) == owner), "")


def owner_of(site: PageContext, model: Model) -> str:
    """Returns the owner of a registered model as the ledger or MLflow has it; empty if neither knows."""
    return site.operations.loop.intake.ownership.names.owner(model.name) or model.owner


def asked(site: PageContext, person: Person, model: str) -> list[AliasJob]:
    """Returns the newest jobs about the alias of a model that the user may see."""
    query = select(Job).where(Job.verb.in_(("promote", "rollback")), Job.model == model, *person.jobs())
    jobs = site.operations.ledger.database.all(query.order_by(Job.seq.desc()).limit(SHOWN))
    return [AliasJob(job, _said(site, job)) for job in jobs]


def _said(site: PageContext, job: Job) -> str:
    """Returns the last line of an ended job's log, which has the outcome; else the reason of its state."""
    lines = log_piece(site, job, job.attempt, None).text.split("\n") if job.state in ENDED and job.attempt else []
    return next((line.strip()[:1000] for line in reversed(lines) if line.strip()), job.reason)


def gates(site: PageContext, person: Person, version: Version) -> list[Folder]:
    """Returns the shards that can be the gate of a version: of its languages, first those that it was trained on."""
    if version.tags.get("bundle_kind") == "vectors":
        return []
    pair, digest = version.tags.get("pair", ""), version.tags.get("manifest_hash", "")
    folders = [
        folder
        for folder in map(site.shards.read, site.shards.all(person)[:READ])
        if folder.summary
        and "-".join(folder.summary.languages) == pair
        and {"valid", "gate"} & folder.summary.records.keys()
    ]
    return sorted(folders, key=lambda folder: folder.summary is None or folder.summary.digest != digest)


def promote(site: PageContext, person: Person, model: Model, version: str, shards: str) -> Job:
    """Submits the promotion of a version, with the gate of the shard folder of that name; empty: the default."""
    if version not in [row.number for row in model.versions]:
        raise UserError(f"{model.name} has no version {version[:80]}")
    words = [f"registry.name={_quoted(model.name)}", f"promote.version={version}"]
    if shards:
        words.append(f"paths.shards={_quoted(str(site.shards.find(person, shards).path))}")
    return _submit(site, person, model, "promote", words)


def roll_back(site: PageContext, person: Person, model: Model, reason: str) -> Job:
    """Submits a rollback. Raises UserError if the model is another owner's."""
    words = [f"registry.name={_quoted(model.name)}"]
    if reason:
        words.append(f"promote.reason={_quoted(reason[:LONGEST])}")
    return _submit(site, person, model, "rollback", words)


def _submit(site: PageContext, person: Person, model: Model, verb: str, words: Sequence[str]) -> Job:
    plan, project = {"model": model.name, "verb": verb}, _project(person, owner_of(site, model))
    account = account_of(person.owner, project)
    site.operations.loop.intake.ownership.check(plan, person.owner, person.may("admin"), account)
    asked_for = validated(schemas.Submission, {"verb": verb, "overrides": list(words), "project": project})
    return site.operations.submit(person, asked_for)


def _quoted(text: str) -> str:
    """Returns a text as a value of an override, whatever it holds."""
    return text if PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
