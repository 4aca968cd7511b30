"""Puts the job service's application together: the REST interface and the pages."""

from fastapi import FastAPI

from dragoman.services.http.documentation import add_documentation
from dragoman.services.http.wrapper import Rules, Wrapper
from dragoman.services.jobs.http import jobs, people, status
from dragoman.services.jobs.http.audit import Auditing
from dragoman.services.jobs.http.parts import ServiceParts
from dragoman.services.jobs.http.problems import add_handlers, refuse
from dragoman.services.jobs.pages.routes import add_pages
from dragoman.services.jobs.pages.site import PageContext
from dragoman.services.jobs.service.metrics import LedgerMetrics
from dragoman.services.telemetry.telemetry import UNMEASURED
from dragoman.services.version import version

PATIENCE = 15.0  # seconds for a request's body to arrive


def create_app(parts: ServiceParts) -> Auditing:
    """Returns the application. It starts and stops nothing; its caller runs the loop's threads."""
    app = FastAPI(
        title="Dragoman jobs",
        version=version(),
        docs_url=None,
        redoc_url=None,
        telemetry=UNMEASURED,  # type: ignore[arg-type]  # a dictionary of its keys
    )
    app.state.parts = parts
    add_handlers(app)
    add_documentation(app)
    parts.loop.scheduler.took = parts.metrics.passes.observe
    parts.loop.accounts.judged = parts.metrics.judge
    parts.observer.look()  # counts what happens from now on
    state = LedgerMetrics(parts.ledger, parts.access, parts.loop.resources, parts.home, parts.operations.idle)
    parts.metrics.telemetry.registry.register(state)
    for resource in (status, jobs, people):
        app.include_router(resource.router)
    app.state.pages = PageContext(parts)
    add_pages(app)
    rules = Rules(limit=parts.config.body, patience=PATIENCE, refuse=refuse)
    return Auditing(Wrapper(app, rules, parts.metrics.telemetry), parts.operations.audit)
