"""The list of jobs: what is asked for, the rows, and the page with its stream."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from fastapi import Response
from fastapi.responses import StreamingResponse
from sqlalchemy import ColumnElement, String, cast

from dragoman.model.errors import UserError
from dragoman.services.jobs import views
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.ledger.filters import NEWEST_FIRST, JobQuery
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.pages import live
from dragoman.services.jobs.pages.jobpage import PARENT, Progress, progress_of
from dragoman.services.jobs.pages.site import Page, Parts, Viewer, marked, page_router, validated
from dragoman.services.jobs.states import ACTIVE, QUEUED, State
from dragoman.services.jobs.views import read_filters

Conditions = Sequence[ColumnElement[bool]]
COLUMNS = ("seq", *views.COLUMNS, "plan")
ROWS = 50
ACTIVE_ROWS = 20  # running jobs, above the others
NEXT = 5  # waiting jobs above all others
AHEAD = ROWS + 10  # waiting jobs to read for a page: some have started since the order was made
RUN = re.compile(r"[0-9a-f]{32}")  # MLflow's form of an id
GROUPS: dict[str, tuple[str, frozenset[State]]] = {
    "all": ("All", frozenset(State)),
    "running": ("Running", ACTIVE),
    "waiting": ("Waiting", QUEUED),
    "succeeded": ("Succeeded", frozenset({State.SUCCEEDED})),
    "failed": ("Failed", frozenset({State.FAILED, State.LOST})),
    "stopped": ("Stopped", frozenset({State.STOPPED})),
}
router = page_router()


@dataclass(frozen=True)
class Filter:
    """The requested jobs, by the names in an address. `before` is the cursor, the `seq` of the last page's end.

    `q` has the filters of the command line, as somebody typed them. Waiting jobs come in the queue's order; their
    cursor is `place`, the number of jobs before the page. `sweep` is the run above trials."""

    state: str = "all"  # a key of GROUPS
    q: str = ""
    sweep: str = ""
    before: int | None = None
    place: int = 0
    sort: str = ""  # "score" or "-score"; by age otherwise

    @classmethod
    def read(cls, values: Mapping[str, str]) -> "Filter":
        """Reads the filter from the values of an address or a form; ignores invalid ones."""
        sweep = values.get("sweep", "")
        return cls(
            values.get("state", "all") if values.get("state") in GROUPS else "all",
            values.get("q", "").strip()[:200],
            sweep if RUN.fullmatch(sweep) else "",
            _number(values.get("before", "")),
            _number(values.get("place", "")) or 0,
            values.get("sort", "") if values.get("sort") in ("score", "-score") else "",
        )

    def conditions(self, person: Person, now: float) -> list[ColumnElement[bool]]:
        """Returns the conditions of the wanted jobs that a user may see, in any state; `now` by the ledger's clock."""
        query = validated(JobQuery, read_filters(self.q.split()), "=")
        conditions = [*person.jobs(), *query.conditions(now)]
        if self.sweep:
            conditions.append(cast(Job.words, String).contains(f"{PARENT}{self.sweep}"))
        return conditions

    def query(self, **changed: Any) -> str:
        """Returns the address of another such list."""
        values = {key: value for key, value in {**vars(self), **changed}.items() if value not in ("", None, 0, "all")}
        return f"?{urlencode(values)}" if values else ""


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None


@dataclass(frozen=True)
class Row:
    """A job in the list, with the columns of the ledger."""

    job: Any
    wait: str = ""  # what it waits for
    progress: Progress | None = None  # of a running training


@dataclass(frozen=True)
class Listing:
    """The values that the template shows."""

    active: Sequence[Row]  # running jobs, above the first page of all or of the waiting jobs
    next: Sequence[Row]  # the first of those that wait, above the first page of all
    rows: Sequence[Row]
    counts: Mapping[str, int]
    filter: Filter
    more: str  # address of the next page; empty at the end
    pictures: str  # address in MLflow of the pictures of the sweep whose trials these are; empty: no sweep
    groups: Mapping[str, tuple[str, frozenset[State]]] = field(default_factory=lambda: GROUPS)


def listing(page: Page, filters: Filter) -> Listing:
    """Returns the requested jobs that a user may see."""
    site, ledger = page.site, page.operations.ledger
    wanted = filters.conditions(page.person, ledger.now())
    order = list(page.operations.loop.scheduler.outcome.waits)
    first = filters.state in ("all", "waiting") and filters.before is None and not (filters.place or filters.sort)
    active = _jobs(ledger, filters, [*wanted, _among(ACTIVE)], ACTIVE_ROWS) if first else []
    queued = _queue(ledger, filters, wanted, order) if filters.state == "waiting" or first else []
    following = queued[:NEXT] if first and filters.state == "all" else []
    jobs: Sequence[Any]
    if filters.state == "waiting":
        jobs = queued
    else:
        # the newest of all jobs are read in order; an index of states does not help here
        all_states = filters.state == "all" and not filters.sort
        condition = Job.state.not_in(sorted(ACTIVE)) if all_states else _among(GROUPS[filters.state][1])
        jobs = _jobs(ledger, filters, [*wanted, condition], ROWS + 1)
    shown, more = jobs[:ROWS], ""
    if len(jobs) > ROWS:
        counted = filters.state == "waiting" or filters.sort
        more = f"/{filters.query(place=filters.place + ROWS) if counted else filters.query(before=shown[-1].seq)}"
    shown = [job for job in shown if job.id not in {follower.id for follower in following}]
    rows, above, after = ([_row(page, job) for job in jobs] for jobs in (shown, active, following))
    by_state = ledger.counts(JobQuery(), wanted)
    counts = {key: sum(by_state.get(state, 0) for state in states) for key, (_, states) in GROUPS.items()}
    pictures = site.tracking.run_page(filters.sweep, "artifacts") if filters.sweep else ""
    return Listing(above, after, rows, counts, filters, more, pictures)


def _row(page: Page, job: Any) -> Row:
    progress = progress_of(job, page.site.journals.read(job)) if job.state in ACTIVE else None
    return Row(job, page.operations.wait_text(job.id, job.state, job.attempt), progress)


def _jobs(ledger: Ledger, filters: Filter, conditions: Conditions, most: int) -> Sequence[Any]:
    """Returns jobs, newest first or as they are sorted, from where the filter's page begins."""
    query = JobQuery(sort=filters.sort or NEWEST_FIRST)
    cursor = filters.before if query.by_age else filters.place
    return ledger.rows(COLUMNS, query, cursor, most, conditions)[0]


def _queue(ledger: Ledger, filters: Filter, wanted: Conditions, order: Sequence[str]) -> list[Any]:
    """Returns waiting jobs in the scheduler's `order`, then those that are not in it yet, by priority and age."""
    conditions = [*wanted, _among(QUEUED)]
    names = list(order[filters.place : filters.place + AHEAD])
    if wanted or len(names) < AHEAD:  # not all jobs, or the end of the queue: their places among all
        rows, _ = ledger.rows(("id", "priority", "queued"), JobQuery(), seen=conditions)
        turn = {name: place for place, name in enumerate(order)}
        rows = sorted(rows, key=lambda row: (turn.get(row.id, len(turn)), -row.priority, row.queued))
        names = [row.id for row in rows[filters.place : filters.place + ROWS + 1]]
    rows, _ = ledger.rows(COLUMNS, JobQuery(), seen=[Job.id.in_(names), _among(QUEUED)])
    queued = {job.id: job for job in rows}
    return [queued[name] for name in names if name in queued][: ROWS + 1]


def _among(states: Collection[State]) -> ColumnElement[bool]:
    return Job.state.in_(sorted(states))


REMOVED = "The job is removed."


def _parts(page: Page, filters: Filter) -> Parts:
    return {"jobs": page.render("_jobs.html", found=listing(page, filters))}


@router.get("/")
def show(page: Viewer) -> Response:
    filters, problem = Filter.read(page.request.query_params), ""
    try:
        parts = _parts(page, filters)
    except UserError as wrong:  # beside all jobs, which stand there instead
        parts, problem = _parts(page, replace(filters, q="")), str(wrong)
    return page.show(
        "jobs.html",
        400 if problem else 200,
        asked=filters,
        problem=problem,
        stream="" if problem else f"/live/jobs{filters.query()}",
        done=REMOVED if "removed" in page.request.query_params else "",
        parts=marked(parts),
    )


@router.get("/live/jobs")
def follow(page: Viewer) -> StreamingResponse:
    filters = Filter.read(page.request.query_params)
    return page.stream(live.parts(page.operations.ledger, lambda: _parts(page, filters)))
