"""The form that submits a job: its fields are those of the typed configuration; the plan is shown beside it."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import select
from starlette.datastructures import FormData, QueryParams

from dragoman.conf.again import key_of
from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.ledger.filters import JobQuery
from dragoman.services.jobs.options import KEPT
from dragoman.services.jobs.pages.site import Page, PageContext, validated
from dragoman.services.jobs.planning.refusals import ELASTIC, VERBS, WORD
from dragoman.services.jobs.service import schemas
from dragoman.services.jobs.states import PRIORITY_NAMES, UNENDED, State

SET = "set."  # prefix of the name of a configuration field
BASE = "base."  # prefix of the name of a choice that the form was made with
GROUPS = ("experiment", "corpus", "tokenizer", "model", "train", "cluster", "registry")
RESUMES = "train"  # the command that resumes the run of its name
LISTS = ("after", "tags")  # of these several, with blanks between them
OFFERED = 100  # jobs to come after


@dataclass(frozen=True)
class Filled:
    """The content of the form."""

    verb: str = "train"
    given: Mapping[str, str] = field(default_factory=dict)  # key of the configuration -> text
    more: str = ""  # overrides as typed, one per line
    queuing: Mapping[str, str] = field(default_factory=dict)
    base: Mapping[str, str] = field(default_factory=dict)  # the command and choices whose fields the browser showed

    def chosen(self, groups: Sequence[str]) -> dict[str, str]:
        """Returns group -> choice, of those in the form."""
        return {name: self.given[name] for name in groups if self.given.get(name)}


def read_form(sent: FormData | QueryParams) -> Filled:
    """Returns the form that a browser sent; the values are checked later."""
    texts = {key: str(value) for key, value in sent.multi_items() if isinstance(value, str)}
    verb = texts.get("verb", "train")
    values = {key.removeprefix(SET): value for key, value in texts.items() if key.startswith(SET)}
    queuing = {key: texts.get(key, "").strip() for key in KEPT}
    base = {key.removeprefix(BASE): value for key, value in texts.items() if key.startswith(BASE)}
    return Filled(verb if verb in VERBS else "train", values, texts.get("more", ""), queuing, base)


def repeat_job(site: PageContext, job: Job) -> Filled:
    """Returns the form that repeats a job. A training gets a new name, because its own would resume its run."""
    words = [word for word in job.words if job.verb != RESUMES or key_of(word) != "name"]
    values, more = _in_fields(words)
    if job.verb == RESUMES and job.name:
        values["name"] = _new_name(site, job)
    queuing = dict.fromkeys(KEPT, "") | {key: " ".join(getattr(job, key)) for key in LISTS}
    queuing["owner"] = job.owner
    queuing["priority"] = PRIORITY_NAMES.get(job.priority, "normal")
    if job.retries:
        queuing["retries"] = str(job.retries)
    return Filled(job.verb, values, "\n".join(more), queuing)


def _in_fields(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Returns key -> value of the words that may have a field, and the others."""
    values: dict[str, str] = {}
    more = []
    for word in words:
        match = WORD.fullmatch(word)
        if match and not match[1] and match[4] is not None and match[2] not in values and not ELASTIC.fullmatch(word):
            values[match[2]] = match[4]
        else:
            more.append(word)
    return values, more


def choices(page: Page) -> list[tuple[str, str]]:
    """Returns (id, description) of the newest jobs that another may come after."""
    filters = JobQuery(state=sorted(UNENDED | {State.SUCCEEDED}))
    columns = ("seq", "id", "name", "verb", "state")
    offered, _ = page.operations.ledger.rows(columns, filters, limit=OFFERED, seen=page.person.jobs())
    return [(row.id, f"{row.name or row.verb}, {row.state}") for row in offered]


def items(text: str) -> list[str]:
    """Returns the parts of a field of several."""
    return [item for item in re.split(r"[\s,]+", text) if item]


def _new_name(site: PageContext, job: Job) -> str:
    """Returns the name of the job's run with the lowest unused number: base-2, base-3, ..."""
    base = re.sub(r"-\d{1,4}$", "", job.name)
    runs = Path((job.plan or {}).get("run_dir") or job.name).parent
    with site.operations.ledger.database.read() as session:
        taken = set(session.scalars(select(Job.name).where(Job.name.startswith(f"{base}-", autoescape=True))))
    numbers = (f"{base}-{number}" for number in count(2))
    return next(candidate for candidate in numbers if candidate not in taken and not (runs / candidate).exists())


def form(site: PageContext, filled: Filled) -> tuple[dict[str, Any], Filled]:
    """Returns the command's fields and the form's content; what has no field becomes one of the other overrides."""
    planner = site.operations.loop.intake.planner
    if filled.base.get("verb") in VERBS:
        # a default shown before is no choice of the browser's: another model or experiment has other defaults
        base_fields = planner.fields(
            filled.base["verb"], {key: filled.base[key] for key in GROUPS if filled.base.get(key)}
        )
        untouched = {row["key"]: row["default"] for row in rows(base_fields)}
        values = {key: value for key, value in filled.given.items() if value.strip() not in ("", untouched.get(key))}
        filled = replace(filled, given=values, base={})
    fields = planner.fields(filled.verb, filled.chosen(GROUPS))
    keys = {row["key"] for row in rows(fields)}
    homeless = [f"{key}={value}" for key, value in filled.given.items() if key not in keys and value.strip()]
    if homeless:
        more = "\n".join([*filter(None, [filled.more.strip()]), *homeless])
        values = {key: value for key, value in filled.given.items() if key in keys}
        filled = Filled(filled.verb, values, more, filled.queuing)
    return fields, filled


def rows(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns all fields of a form."""
    return [
        *fields["groups"],
        *fields["general"],
        *(row for section in fields["sections"] for row in section["fields"]),
    ]


def overrides(fields: Mapping[str, Any], filled: Filled) -> list[str]:
    """Returns the overrides of a filled form: the values that are not defaults, then the others as typed."""
    words = []
    for row in rows(fields):
        key, kind = row["key"], row.get("kind")
        value = filled.given.get(key, "").strip()
        if value in ("", row["default"]):
            continue
        if kind == "whole" and not re.fullmatch(r"[+-]?\d+", value) and not ELASTIC.fullmatch(f"{key}={value}"):
            raise UserError(f"{key}={value}: must be a whole number")
        if kind == "number" and not _is_number(value):
            raise UserError(f"{key}={value}: must be a number")
        words.append(f"{key}={value}")
    return [*words, *(line.strip() for line in filled.more.splitlines() if line.strip())]


def submission(filled: Filled, words: Sequence[str]) -> schemas.Submission:
    """Returns the form as the REST interface takes it."""
    how = {key: value for key, value in filled.queuing.items() if value}
    values: dict[str, Any] = {"verb": filled.verb, "overrides": list(words), **how}
    values |= {key: items(how.get(key, "")) for key in LISTS}
    return validated(schemas.Submission, values, "=")


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
