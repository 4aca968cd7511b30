"""The health of the service, and metrics."""

from fastapi import APIRouter, Response

from dragoman.services.jobs.http.parts import Here, Scraper
from dragoman.services.jobs.http.problems import PROBLEMS
from dragoman.services.jobs.service import schemas
from dragoman.services.telemetry.telemetry import FORMAT
from dragoman.services.version import version

router = APIRouter()


@router.get("/status", responses={503: PROBLEMS[503]})
def status(here: Here) -> schemas.StatusView:
    """Returns the service's health; needs no token and names nobody."""
    loop, trouble = here.loop, here.health.trouble()
    # a line of a log may name somebody
    children = {name: state.partition(":")[0] if here.guard.keys else state for name, state in here.children().items()}
    return schemas.StatusView(
        children=children,
        status="degraded" if trouble else "ok",
        trouble=trouble,
        version=version(),
        counts=here.ledger.counts(),
        nodes=list(loop.capacity.nodes) if loop.capacity else [],
        keys=here.guard.keys,
        pass_seconds=loop.scheduler.seconds,
    )


@router.get("/metrics", include_in_schema=False)
def metrics(here: Here, person: Scraper) -> Response:
    """Returns metrics for Prometheus, whose token has the role `metrics`; others see no owner but themselves."""
    here.observer.look()
    return Response(here.metrics.telemetry.text(person.sees), headers={"Content-Type": FORMAT})
