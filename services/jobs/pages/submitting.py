"""The form that submits a job: a verb, choices of conf/ and settings, a line each; the plan is shown beside it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import select
from starlette.datastructures import FormData, QueryParams

from dragoman.conf import groups
from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.ledger.filters import JobQuery
from dragoman.services.jobs.options import KEPT
from dragoman.services.jobs.pages.site import Page, PageContext, validated
from dragoman.services.jobs.planning.refusals import VERBS
from dragoman.services.jobs.service import schemas
from dragoman.services.jobs.states import PRIORITY_NAMES, UNENDED, State

GROUPS = ("experiment", "corpus", "tokenizer", "model", "vectors", "registry")  # of conf/, whose choices have a field
CHOSEN = (*GROUPS, "name")  # settings with a field of their own
RESUMES = "train"  # the command that resumes the run of its name
LISTS = ("after", "tags")  # of these several, with blanks between them
OFFERED = 100  # jobs to come after


@dataclass(frozen=True)
class Filled:
    """The content of the form."""

    verb: str = "train"
    chosen: Mapping[str, str] = field(default_factory=dict)  # of CHOSEN; empty: the default
    settings: str = ""  # key=value, as typed, one a line
    queuing: Mapping[str, str] = field(default_factory=dict)

    def overrides(self) -> list[str]:
        """Returns the overrides of the submission."""
        typed = [line.strip() for line in self.settings.splitlines() if line.strip()]
        return [*(f"{key}={self.chosen[key]}" for key in CHOSEN if self.chosen.get(key)), *typed]


class Choice(NamedTuple):
    """A group of conf/ in the form."""

    group: str
    choices: Sequence[str]
    default: str


def offered_choices() -> list[Choice]:
    """Returns the groups that the form offers."""
    defaults = groups.default_choices()
    return [Choice(group, groups.choices(group), str(defaults.get(group) or "")) for group in GROUPS]


def read_form(sent: FormData | QueryParams) -> Filled:
    """Returns the form that a browser sent; the values are checked later."""
    texts = {key: str(value).strip() for key, value in sent.multi_items() if isinstance(value, str)}
    verb = texts.get("verb", "train")
    chosen, queuing = ({key: texts.get(key, "") for key in keys} for keys in (CHOSEN, KEPT))
    return Filled(verb if verb in VERBS else "train", chosen, texts.get("settings", ""), queuing)


def repeat_job(site: PageContext, job: Job) -> Filled:
    """Returns the form that repeats a job. A training gets a new name, because its own would resume its run."""
    chosen: dict[str, str] = {}
    settings = []
    for word in job.words:
        key, _, value = word.partition("=")
        if key == "name" and job.verb == RESUMES:
            continue
        if key in CHOSEN and key not in chosen:
            chosen[key] = value
        else:
            settings.append(word)
    if job.verb == RESUMES and job.name:
        chosen["name"] = _new_name(site, job)
    queuing = dict.fromkeys(KEPT, "") | {key: " ".join(getattr(job, key)) for key in LISTS}
    queuing["owner"] = job.owner
    queuing["priority"] = PRIORITY_NAMES.get(job.priority, "normal")
    if job.retries:
        queuing["retries"] = str(job.retries)
    return Filled(job.verb, chosen, "\n".join(settings), queuing)


def jobs_before(page: Page) -> list[tuple[str, str]]:
    """Returns (id, description) of the newest jobs that another may come after."""
    filters = JobQuery(state=sorted(UNENDED | {State.SUCCEEDED}))
    columns = ("seq", "id", "name", "verb", "state")
    offered, _ = page.operations.ledger.rows(columns, filters, limit=OFFERED, seen=page.person.jobs())
    return [(row.id, f"{row.name or row.verb}, {row.state}") for row in offered]


def items(text: str) -> list[str]:
    """Returns the parts of a field of several."""
    return [item for item in re.split(r"[\s,]+", text) if item]


def submission(filled: Filled) -> schemas.Submission:
    """Returns the form as the REST interface takes it."""
    how = {key: value for key, value in filled.queuing.items() if value}
    values: dict[str, Any] = {"verb": filled.verb, "overrides": filled.overrides(), **how}
    values |= {key: items(how.get(key, "")) for key in LISTS}
    return validated(schemas.Submission, values, "=")


def _new_name(site: PageContext, job: Job) -> str:
    """Returns the name of the job's run with the lowest unused number: base-2, base-3, ..."""
    base = re.sub(r"-\d{1,4}$", "", job.name)
    runs = Path((job.plan or {}).get("run_dir") or job.name).parent
    with site.operations.ledger.database.read() as session:
        taken = set(session.scalars(select(Job.name).where(Job.name.startswith(f"{base}-", autoescape=True))))
    numbers = (f"{base}-{number}" for number in count(2))
    return next(candidate for candidate in numbers if candidate not in taken and not (runs / candidate).exists())
