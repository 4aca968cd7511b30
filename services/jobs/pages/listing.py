"""The page of jobs: what the ledger has, some at a time, with why each waits and about when it starts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from sqlalchemy import ColumnElement, String, cast, func, or_, select

from services.jobs.ledger.access import Person
from services.jobs.ledger.ledger import Ledger
from services.jobs.ledger.tables import Job
from services.jobs.pages.compare import MOST
from services.jobs.pages.jobpage import PARENT
from services.jobs.pages.outlook import Forecast
from services.jobs.pages.site import Site
from services.jobs.states import ACTIVE, QUEUED, State

ROWS = 50
RUN = re.compile(r"[0-9a-f]{32}")  # an id of MLflow's
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
    """What is asked for. `before` is the cursor: the `seq` where the last page ended; `sweep` the run above trials."""

    group: str = "all"
    text: str = ""
    owner: str = ""
    sweep: str = ""
    before: int | None = None

    @classmethod
    def of(cls, request: Request) -> "Filter":
        """From the address; what cannot be is left out."""
        asked = request.query_params
        before, sweep = asked.get("before", ""), asked.get("sweep", "")
        return cls(
            asked.get("state", "all") if asked.get("state") in GROUPS else "all",
            asked.get("q", "").strip()[:200],
            asked.get("owner", "").strip()[:160],
            sweep if RUN.fullmatch(sweep) else "",
            int(before) if before.isdecimal() and len(before) < 10 else None,
        )

    def query(self, **changed: Any) -> str:
        """The address of another list of these."""
        asked = {"state": self.group, "q": self.text, "owner": self.owner, "sweep": self.sweep, "before": self.before}
        asked |= changed
        kept = {key: value for key, value in asked.items() if value not in ("", None, "all")}
        return f"?{urlencode(kept)}" if kept else ""


@dataclass(frozen=True)
class Row:
    """A job in the list."""

    job: Job
    forecast: Forecast | None
    done: float | None  # of a training that runs: the part of its steps, 0 to 1
    step: int = 0
    steps: int = 0


@dataclass(frozen=True)
class Sweep:
    """Whose trials are listed: addresses of its pictures, in MLflow, and of its trials side by side."""

    pictures: str
    compare: str  # empty: there are none, or too many


@dataclass(frozen=True)
class Listing:
    """What the template shows."""

    rows: Sequence[Row]
    counts: Mapping[str, int]
    filter: Filter
    older: int | None  # the cursor of those before; None at the end
    sweep: Sweep | None
    groups: Mapping[str, tuple[str, frozenset[State]]] = field(default_factory=lambda: GROUPS)


def listing(site: Site, person: Person, asked: Filter) -> Listing:
    """The jobs that a person may see and asks for."""
    owner = site.desk.only(person, asked.owner or None)
    found = _jobs(site.desk.ledger, asked, owner)
    shown = found[:ROWS]
    forecasts = site.outlook.view().forecasts
    rows = [_row(site, job, forecasts.get(job.id)) for job in shown]
    by_state = _counts(site.desk.ledger, asked, owner)
    counts = {key: sum(by_state.get(state, 0) for state in states) for key, (_, states) in GROUPS.items()}
    return Listing(rows, counts, asked, shown[-1].seq if len(found) > ROWS else None, _sweep(site, asked, shown))


def _sweep(site: Site, asked: Filter, shown: Sequence[Job]) -> Sweep | None:
    if not asked.sweep:
        return None
    page = site.tracking.run_page(asked.sweep)
    trials = {job.run: job.id for job in shown}  # the best one's run has a second job, that registers it
    together = urlencode([("job", trials[run]) for run in sorted(trials)]) if 1 < len(trials) <= MOST else ""
    return Sweep(f"{page}/artifacts" if page else "", f"/compare?{together}" if together else "")


def _row(site: Site, job: Job, forecast: Forecast | None) -> Row:
    if job.state not in ACTIVE or job.verb != "train" or not job.plan or not job.plan.get("steps"):
        return Row(job, forecast if job.state in QUEUED else None, None)
    steps = int(job.plan["steps"])
    step = int(site.journals.read(job.plan.get("run_dir")).last.get("step", 0))
    return Row(job, None, min(1.0, step / max(1, steps)), step, steps)


def _jobs(ledger: Ledger, asked: Filter, owner: str | None) -> list[Job]:
    query = select(Job).order_by(Job.seq.desc()).limit(ROWS + 1).where(*_wanted(asked, owner))
    if asked.group != "all":
        query = query.where(Job.state.in_(sorted(GROUPS[asked.group][1])))
    if asked.before is not None:
        query = query.where(Job.seq < asked.before)
    with ledger.database.read() as session:
        return list(session.scalars(query))


def _counts(ledger: Ledger, asked: Filter, owner: str | None) -> dict[str, int]:
    """How many jobs there are in each state, of those that are asked for."""
    query = select(Job.state, func.count()).where(*_wanted(asked, owner)).group_by(Job.state)
    with ledger.database.read() as session:
        return {str(state): count for state, count in session.execute(query)}


def _wanted(asked: Filter, owner: str | None) -> list[ColumnElement[bool]]:
    """What is asked for, in whatever state."""
    wanted: list[ColumnElement[bool]] = [] if owner is None else [Job.owner == owner]
    words = cast(Job.words, String)
    if asked.sweep:
        wanted.append(words.contains(f"{PARENT}{asked.sweep}"))
    if asked.text:
        like = asked.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        found = [one.ilike(f"%{like}%", escape="\\") for one in (Job.run, Job.verb, words)]
        wanted.append(or_(Job.id == asked.text, *found))
    return wanted
