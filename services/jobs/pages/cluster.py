"""The page of the cluster: its resources, their users, the owners' quotas, and the cost of faults."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Response
from fastapi.responses import StreamingResponse

from dragoman.services.jobs.ledger.access import OTHERS, Bounds, Person
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.pages import live
from dragoman.services.jobs.pages.site import Page, Parts, Viewer, marked, page_router
from dragoman.services.jobs.service.charts import EDGE, MACHINE_CHARTS, Segment, use_charts
from dragoman.services.jobs.service.usage import read_machines
from dragoman.services.jobs.states import ACTIVE

FAULTS = 12  # rows of the bill
router = page_router()


@dataclass(frozen=True)
class Resource:
    """CPUs or GPUs of the whole cluster, and their users."""

    name: str
    total: float
    used: float
    parts: Sequence[Segment]


@dataclass(frozen=True)
class Holding:
    """A running job. Users without access see "another owner" instead of the name."""

    job: Job
    visible: bool
    cpus: float
    gpus: float
    colour: int
    latest: float | None


@dataclass(frozen=True)
class Share:
    """The use and quota of an owner, or of a project's account."""

    owner: str
    cpus: float
    gpus: float
    most_cpus: float | None
    most_gpus: float | None
    jobs: int
    most_jobs: int | None


@router.get("/cluster")
def show(page: Viewer) -> Response:
    return page.show("cluster.html", parts=marked(_parts(page)), stream="/live/cluster")


@router.get("/live/cluster")
def follow(page: Viewer) -> StreamingResponse:
    return page.stream(live.parts(page.operations.ledger, lambda: _parts(page)))


def _parts(page: Page) -> Parts:
    operations, person = page.operations, page.person
    capacity, scheduler = operations.loop.capacity, operations.loop.scheduler
    nodes = capacity.nodes if capacity else ()
    active = sorted(operations.ledger.jobs(ACTIVE), key=lambda job: job.seq)
    holdings = [_holding(job, person, index) for index, job in enumerate(active)]
    totals = {"CPU": sum(node.cpus for node in nodes), "GPU": sum(node.gpus for node in nodes)}
    machines = read_machines(page.site.home, operations.ledger)
    content: dict[str, Any] = {
        "usage": use_charts(machines, MACHINE_CHARTS),
        "nodes": nodes,
        "resources": [
            _resource(name, total, holdings)
            for name, total in totals.items()
            if total or name == "CPU" or _held(name, holdings)
        ],
        "holdings": holdings,
        "bill": operations.bill(person, None)[:FAULTS],
        "known": capacity is not None,
        "shares": _shares(holdings, scheduler.access.quotas(), person),
    }
    return {"cluster": page.render("_cluster.html", **content)}


def _holding(job: Job, person: Person, index: int) -> Holding:
    latest = job.started + job.seconds_high if job.started and job.seconds_high else None
    return Holding(job, person.sees_job(job), job.workers * job.cpus, job.workers * job.gpus, index % 8, latest)


def _held(name: str, holdings: Sequence[Holding]) -> float:
    return sum(holding.cpus if name == "CPU" else holding.gpus for holding in holdings)


def _resource(name: str, total: float, holdings: Sequence[Holding]) -> Resource:
    """Returns a bar of the existing resources; if more is held (a node has gone), of the held ones."""
    used = _held(name, holdings)
    scale, place, parts = EDGE / (max(total, used) or 1.0), 0.0, []
    for holding in holdings:
        amount = holding.cpus if name == "CPU" else holding.gpus
        if amount:
            label = f"{holding.job.id}: {amount:g}" if holding.visible else f"{OTHERS}: {amount:g}"
            parts.append(Segment(round(place, 1), round(max(1.0, amount * scale - 3), 1), holding.colour, label))
            place += amount * scale
    return Resource(name, total, used, parts)


def _shares(holdings: Sequence[Holding], quotas: dict[str, Bounds], person: Person) -> list[Share]:
    owners = sorted({holding.job.account for holding in holdings} | quotas.keys())
    rows = []
    for owner in owners:
        if not person.sees(owner):
            continue
        mine = [holding for holding in holdings if holding.job.account == owner]
        cpus, gpus, most = quotas.get(owner, (None, None, None))
        rows.append(Share(owner, _held("CPU", mine), _held("GPU", mine), cpus, gpus, len(mine), most))
    return rows
