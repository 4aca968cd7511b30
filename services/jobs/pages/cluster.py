"""The page of the cluster: its resources, their users, the owners' quotas, and the cost of faults."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.services.jobs.ledger.access import OTHERS, Person
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.pages.site import PageContext
from dragoman.services.jobs.service.charts import EDGE, MACHINE_CHARTS, use_charts
from dragoman.services.jobs.service.usage import read_machines
from dragoman.services.jobs.states import ACTIVE, Quota

FAULTS = 12  # rows of the bill


@dataclass(frozen=True)
class Part:
    """A segment of a bar, 0 to EDGE."""

    start: float
    width: float
    colour: int
    label: str


@dataclass(frozen=True)
class Resource:
    """CPUs or GPUs of the whole cluster, and their users."""

    name: str
    total: float
    used: float
    parts: Sequence[Part]


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


def cluster(site: PageContext, person: Person) -> dict[str, Any]:
    capacity = site.operations.loop.capacity
    nodes = capacity.nodes if capacity else ()
    active = sorted(site.operations.ledger.jobs(ACTIVE), key=lambda job: job.seq)
    holdings = [_holding(job, person, index) for index, job in enumerate(active)]
    totals = {"CPU": sum(node.cpus for node in nodes), "GPU": sum(node.gpus for node in nodes)}
    resources = [
        _resource(name, total, holdings)
        for name, total in totals.items()
        if total or name == "CPU" or _held(name, holdings)
    ]
    quotas = site.operations.loop.scheduler.access.quotas()
    bill = site.operations.bill(person, None)[:FAULTS]
    machines = read_machines(site.home, site.operations.ledger)
    return {
        "usage": use_charts(machines, MACHINE_CHARTS),
        "machines": machines,
        "nodes": nodes,
        "resources": resources,
        "holdings": holdings,
        "bill": bill,
        "known": capacity is not None,
        "shares": _shares(holdings, quotas, person),
        "now": site.now,
        "pass_seconds": site.operations.loop.scheduler.seconds,
        "counts": site.operations.ledger.counts(),
    }


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
            parts.append(Part(round(place, 1), round(max(1.0, amount * scale - 3), 1), holding.colour, label))
            place += amount * scale
    return Resource(name, total, used, parts)


def _shares(holdings: Sequence[Holding], quotas: dict[str, Quota], person: Person) -> list[Share]:
    owners = sorted({holding.job.account for holding in holdings} | quotas.keys())
    rows = []
    for owner in owners:
        if not person.sees(owner):
            continue
        mine = [holding for holding in holdings if holding.job.account == owner]
        cpus, gpus, most = quotas.get(owner, Quota())
        rows.append(Share(owner, _held("CPU", mine), _held("GPU", mine), cpus, gpus, len(mine), most))
    return rows
