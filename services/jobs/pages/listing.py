"""The list of jobs: what is asked for, the rows, the page with its stream, and the same as CSV."""

import csv
import io
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, RedirectResponse, StreamingResponse
from sqlalchemy import ColumnElement, String, cast, func, or_, select

from dragoman.model.errors import UserError, unknown
from dragoman.model.plural import plural
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.filters import JobQuery
from dragoman.services.jobs.ledger.ledger import ConflictError, Ledger
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.pages import live
from dragoman.services.jobs.pages.jobpage import PARENT, title
from dragoman.services.jobs.pages.site import HEADERS, PageContext, Visitor, part, validated
from dragoman.services.jobs.scheduling.why import Forecast
from dragoman.services.jobs.service.usage import read_use
from dragoman.services.jobs.service.words import iso, priority
from dragoman.services.jobs.states import ACTIVE, PRIORITIES, QUEUED, State

FIELDS = tuple(name for name in JobQuery.model_fields if name != "sort")
SEVERAL = ("state", "tag")  # with A,B
TOKEN = re.compile(r'([a-z_]+):("[^"]*"|\S*)|"[^"]*"|\S+')


@dataclass(frozen=True)
class Search:
    """The fields, and the rest as one text."""

    fields: dict[str, Any] = field(default_factory=dict)
    text: str = ""

    def conditions(self, now: float) -> list[ColumnElement[bool]]:
        """Returns the conditions of the fields."""
        if not self.fields:
            return []
        return validated(JobQuery, self.fields, ":").conditions(now)


def read_search(text: str) -> Search:
    """Returns what a text asks for."""
    fields: dict[str, Any] = {}
    rest: list[str] = []
    for match in TOKEN.finditer(text):
        key, value = match[1], (match[2] or "").strip('"')
        if key is None or value.startswith("//"):  # a word, or an address
            rest.append(match[0].strip('"'))
        elif key not in FIELDS:
            raise unknown('field (a word with a colon stands in quotation marks, "A:B")', key, FIELDS)
        elif not value:
            raise UserError(f"{key}: is empty; write {key}:VALUE")
        elif key in SEVERAL:
            fields[key] = [*fields.get(key, []), *value.split(",")]
        else:
            fields[key] = value
    return Search(fields, " ".join(filter(None, rest)))


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


@dataclass(frozen=True)
class Filter:
    """The requested jobs. `before` is the cursor, the `seq` of the last page's end.

    `text` is as somebody typed it, with fields or without. Waiting jobs come in the queue's order; their cursor is
    `place`, the number of jobs before the page. `sweep` is the run above trials."""

    group: str = "all"
    text: str = ""
    owner: str = ""
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
            values.get("owner", "").strip()[:160],
            sweep if RUN.fullmatch(sweep) else "",
            _number(values.get("before", "")),
            _number(values.get("place", "")) or 0,
            values.get("sort", "") if values.get("sort") in ("score", "-score") else "",
        )

    @property
    def search(self) -> Search:
        """Returns what `text` asks for. Raises UserError for an unknown field."""
        return read_search(self.text)

    def query(self, **changed: Any) -> str:
        """Returns the address of another such list."""
        values: dict[str, Any] = {"state": self.group, "q": self.text, "owner": self.owner, "sweep": self.sweep}
        values |= {"before": self.before, "place": self.place, "sort": self.sort, **changed}
        kept = {key: value for key, value in values.items() if value not in ("", None, 0, "all")}
        return f"?{urlencode(kept)}" if kept else ""


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None


@dataclass(frozen=True)
class Row:
    """A job in the list."""

    job: Job
    forecast: Forecast | None
    done: float | None  # a running training's finished part, 0 to 1
    step: int = 0
    steps: int = 0
    cpus: str = ""  # in use of those that it holds
    gpus: str = ""


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


def listing(site: PageContext, person: Person, filters: Filter) -> Listing:
    """Returns the requested jobs that a user may see."""
    ledger = site.operations.ledger
    forecasts = site.forecaster.view().forecasts
    active: list[Job] = []
    first = filters.group in ("all", "waiting") and filters.before is None and not (filters.place or filters.sort)
    if first:
        active = _jobs(ledger, filters, person, _among(ACTIVE), ACTIVE_ROWS)
    if filters.group == "waiting":
        queue_rows = _queue(ledger, filters, person, list(forecasts))
    else:
        # the newest of all jobs are read in order; an index of states does not help here
        all_states = filters.group == "all" and not filters.sort
        condition = Job.state.not_in(sorted(ACTIVE)) if all_states else _among(GROUPS[filters.group][1])
        queue_rows = _jobs(ledger, filters, person, condition)
    following = _queue(ledger, filters, person, list(forecasts))[:NEXT] if first and filters.group == "all" else []
    shown, more = queue_rows[:ROWS], ""
    if len(queue_rows) > ROWS:
        counted = filters.group == "waiting" or filters.sort
        more = f"/{filters.query(**({'place': filters.place + ROWS} if counted else {'before': shown[-1].seq}))}"
    shown = [job for job in shown if job.id not in {follower.id for follower in following}]
    parts = (shown, active, following)
    rows, above, after = ([_row(site, job, forecasts.get(job.id)) for job in jobs] for jobs in parts)
    by_state = _counts(ledger, filters, person)
    counts = {key: sum(by_state.get(state, 0) for state in states) for key, (_, states) in GROUPS.items()}
    pictures = site.tracking.run_page(filters.sweep, "artifacts") if filters.sweep else ""
    return Listing(above, after, rows, counts, filters, more, pictures)


def _row(site: PageContext, job: Job, forecast: Forecast | None) -> Row:
    if job.state not in ACTIVE:
        return Row(job, forecast if job.state in QUEUED else None, None)
    used = [use.last for use in read_use(site.home, job.id, job.attempt).values()]
    cpus = _use(sum(use.get("cpu", 0.0) for use in used) if used else None, job.workers * job.cpus)
    gpus = _use(sum(use.get("gpu", 0.0) for use in used) / 100 if used else None, job.workers * job.gpus)
    steps = int((job.plan or {}).get("steps") or 0) if job.verb == "train" else 0
    if not steps:
        return Row(job, None, None, cpus=cpus, gpus=gpus)
    step = int(site.journals.read((job.plan or {}).get("run_dir")).last.get("step", 0))
    return Row(job, None, min(1.0, step / steps), step, steps, cpus, gpus)


def _use(used: float | None, held: float) -> str:
    """Returns what a job uses of the processors that it holds; empty if it holds none."""
    return "" if not held else f"{held:g}" if used is None else f"{used:.1f} of {held:g}"


def _jobs(
    ledger: Ledger, filters: Filter, person: Person, state: ColumnElement[bool], most: int = ROWS + 1
) -> list[Job]:
    """Returns jobs in these states, newest first or as they are sorted."""
    query = select(Job).limit(most).where(*wanted_jobs(filters, person), state)
    if filters.sort:
        return ledger.database.all(query.order_by(*JobQuery(sort=filters.sort).order()).offset(filters.place))
    query = query.order_by(Job.seq.desc())
    if filters.before is not None:
        query = query.where(Job.seq < filters.before)
    return ledger.database.all(query)


def older(site: PageContext, person: Person, filters: Filter, before: int | None, most: int) -> list[Job]:
    """Returns the wanted jobs older than `before`, newest first. Raises UserError if the search cannot be read."""
    return _jobs(
        site.operations.ledger, replace(filters, before=before), person, _among(GROUPS[filters.group][1]), most
    )


def _queue(ledger: Ledger, filters: Filter, person: Person, order: Sequence[str]) -> list[Job]:
    """Returns waiting jobs in the scheduler's `order`, then those that are not in it yet, by priority and age."""
    conditions = [*wanted_jobs(filters, person), _among(QUEUED)]
    names = list(order[filters.place : filters.place + AHEAD])
    with ledger.database.read() as session:
        if len(conditions) > 1 or len(names) < AHEAD:  # not all jobs, or the end of the queue: their places among all
            rows = session.execute(select(Job.id, Job.priority, Job.queued).where(*conditions)).all()
            turn = {name: place for place, name in enumerate(order)}
            rows = sorted(rows, key=lambda row: (turn.get(row.id, len(turn)), -row.priority, row.queued))
            names = [row.id for row in rows[filters.place : filters.place + ROWS + 1]]
        queued = {job.id: job for job in session.scalars(select(Job).where(Job.id.in_(names), _among(QUEUED)))}
    return [queued[name] for name in names if name in queued][: ROWS + 1]


def _among(states: Collection[State]) -> ColumnElement[bool]:
    return Job.state.in_(sorted(states))


def _counts(ledger: Ledger, filters: Filter, person: Person) -> dict[str, int]:
    """Returns the number of requested jobs in each state."""
    query = select(Job.state, func.count()).where(*wanted_jobs(filters, person)).group_by(Job.state)
    with ledger.database.read() as session:
        return {str(state): count for state, count in session.execute(query)}


def wanted_jobs(filters: Filter, person: Person) -> list[ColumnElement[bool]]:
    """Returns the conditions for the requested jobs that a person may see, in any state."""
    conditions = [*person.jobs(), *([Job.owner == filters.owner] if filters.owner else [])]
    search = filters.search
    conditions += search.conditions(time.time())
    words = cast(Job.words, String)
    if filters.sweep:
        conditions.append(words.contains(f"{PARENT}{filters.sweep}"))
    if search.text:
        like = search.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        matches = [column.ilike(f"%{like}%", escape="\\") for column in (Job.run, Job.verb, words)]
        conditions.append(or_(Job.id == search.text, *matches))
    return conditions


AT_ONCE = 500
HEAD = (
    "job",
    "owner",
    "project",
    "command",
    "run",
    "model",
    "tags",
    "state",
    "reason",
    "priority",
    "workers",
    "attempts",
    "metric",
    "score",
)
TIMES = ("submitted", "changed", "seconds")
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # OWASP, CSV injection


def as_csv(site: PageContext, person: Person, filters: Filter) -> Iterator[str]:
    """Yields the wanted jobs, newest first, as pieces of a CSV file."""
    yield csv_lines([(*HEAD, *TIMES)])
    before = None
    while jobs := older(site, person, filters, before, AT_ONCE):
        rows = (
            (
                job.id,
                job.owner,
                job.project,
                " ".join([job.verb, *job.words]),
                job.run.partition(" ")[2],
                job.model,
                " ".join(job.tags),
                job.state,
                job.reason,
                priority(job.priority),
                job.workers,
                job.attempt,
                job.metric,
                "" if job.score is None else job.score,
                iso(job.submitted),
                iso(job.changed),
                round(job.spent, 1),
            )
            for job in jobs
        )
        yield csv_lines(rows)
        before = jobs[-1].seq


def csv_lines(rows: Iterable[Sequence[object]]) -> str:
    """Returns rows as lines of a CSV file, without formulas."""
    made = io.StringIO()
    csv.writer(made).writerows([[_safe(cell) for cell in row] for row in rows])
    return made.getvalue()


def _safe(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def change_many(site: PageContext, person: Person, names: Sequence[str], sent: Mapping[str, Any]) -> str:
    """Stops, retries, tags, or gives a priority to jobs; returns what was done, and why not for the others."""
    operations, what, tag = site.operations, str(sent.get("do", "")), str(sent.get("tag", "")).strip()
    words = {"stop": "asked to stop", "retry": "queued again", "priority": "given another priority", "tag": "tagged"}
    if what not in words:
        raise UserError(f"do: {what!r} is none of {', '.join(words)}")
    if what == "tag":
        validated(JobQuery, {"tag": [tag]})
    done, refused = 0, []
    for name in names:
        try:
            match what:
                case "stop":
                    operations.stop(person, name)
                case "retry":
                    operations.retry(person, name)
                case "priority":
                    operations.set_priority(person, name, PRIORITIES.get(sent.get("priority", "normal"), 0))
                case _:
                    operations.add_tag(person, name, tag)
            done += 1
        except (UserError, ConflictError, HTTPException) as problem:
            refused.append(f"{name}: {problem.detail if isinstance(problem, HTTPException) else problem}")
    others = f"; not {refused[0]}{f' and {len(refused) - 1} more' if len(refused) > 1 else ''}" if refused else ""
    return f"{plural(done, 'job')} {words[what]}{others}." if names else "Choose some jobs first."


VISITORS = 1000  # whose changes are remembered until they are shown
RECENT = 50  # jobs offered by name
REMOVED = "The job is removed."


def add_list(router: APIRouter, site: PageContext) -> None:
    notes: dict[str, str] = {}  # visitor -> what their last change of many jobs did, shown once

    def shown(visitor: Visitor, filters: Filter) -> Mapping[str, str]:
        parts = listing(site, visitor.person, filters)
        more = {"now": site.now, "person": visitor.person, "csrf": visitor.csrf}
        return {"jobs": site.render("_jobs.html", found=parts, **more)}

    @router.get("/")
    def jobs(request: Request) -> Response:
        visitor, filters, problem = site.visitor(request), Filter.read(request.query_params), ""
        try:
            parts = shown(visitor, filters)
        except UserError as wrong:  # beside all jobs, which stand there instead
            parts, problem = shown(visitor, replace(filters, text="")), str(wrong)
        more: dict[str, Any] = {
            "stream": "" if problem else f"/live/jobs{filters.query()}",
            "done": REMOVED if "removed" in request.query_params else notes.pop(visitor.csrf, ""),
            "fields": FIELDS,
            "parts": {name: part(name, text) for name, text in parts.items()},
        }
        status = 400 if problem else 200
        return site.page(request, visitor, "jobs.html", status, asked=filters, problem=problem, **more)

    @router.get("/live/jobs")
    async def live_jobs(request: Request) -> StreamingResponse:
        visitor = await run_in_threadpool(site.visitor, request)
        filters = Filter.read(request.query_params)
        return live.answer(site, visitor, live.parts(site.newest, lambda: shown(visitor, filters)))

    @router.post("/jobs")
    async def change(request: Request) -> Response:
        visitor, sent = await site.form(request)
        names = [str(name) for name in sent.getlist("job")][:AT_ONCE]
        if len(notes) >= VISITORS:
            notes.clear()
        notes[visitor.csrf] = await run_in_threadpool(change_many, site, visitor.person, names, sent)
        back = Filter.read(dict(parse_qsl(str(sent.get("back", "")).lstrip("?"))))
        return RedirectResponse(f"/{back.query()}", 303)

    @router.get("/jobs.csv")
    def table(request: Request) -> Response:
        visitor, filters = site.visitor(request), Filter.read(request.query_params)
        filters.search.conditions(site.now)  # refused before the answer begins
        headers = {**HEADERS, "Content-Disposition": 'attachment; filename="jobs.csv"'}
        return StreamingResponse(as_csv(site, visitor.person, filters), media_type="text/csv", headers=headers)

    @router.get("/recent.json")
    def recent(request: Request) -> Response:
        visitor = site.visitor(request)
        newest = older(site, visitor.person, Filter(), None, RECENT)
        rows = [{"id": job.id, "name": title(job), "verb": job.verb, "state": job.state} for job in newest]
        return JSONResponse(rows, headers=HEADERS)
