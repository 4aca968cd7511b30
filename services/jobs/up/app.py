"""Puts the job service's application together: the REST interface and the pages.

GET /status, /metrics                 POST /v1/plans        POST, GET /v1/jobs       GET, DELETE /v1/jobs/{id}
POST /v1/jobs/{id}/stop, yield, retry, priority, after        GET /v1/jobs/{id}/why, logs, curves, usage, report
GET /v1/events                   GET /v1/jobs/{id}/log-events                   (server-sent events)
GET /v1/bill   GET /v1/quotas    PUT /v1/quotas/{owner}   GET, POST /v1/tokens   DELETE /v1/tokens/{name}
GET /v1/models PUT /v1/models/{name}                                            POST /v1/tokens/{name}/rotate
GET /v1/retention                GET /v1/audit
POST /v1/login, /v1/login/token
GET /v1/me   GET, POST /v1/me/tokens   DELETE /v1/me/tokens/{name}
POST /v1/arrays   GET /v1/presets    PUT, DELETE /v1/presets/{name}
GET, POST /v1/projects   GET, DELETE /v1/projects/{project}   PUT /v1/projects/{project}/quota
PUT, DELETE /v1/projects/{project}/members/{owner}
GET, POST /v1/schedules          DELETE /v1/schedules/{id}   POST /v1/schedules/{id}/pause, resume
"""

from fastapi import FastAPI

from dragoman.services.http.documentation import add_documentation
from dragoman.services.http.wrapper import Rules, Wrapper
from dragoman.services.jobs.http import jobs, people, status
from dragoman.services.jobs.http.audit import Auditing
from dragoman.services.jobs.http.parts import Parts
from dragoman.services.jobs.http.problems import add_handlers, refuse
from dragoman.services.jobs.pages.routes import add_pages
from dragoman.services.jobs.pages.site import Sessions, Site
from dragoman.services.jobs.service.tracking import Tracking
from dragoman.services.telemetry.telemetry import UNMEASURED
from dragoman.services.version import version

PATIENCE = 15.0  # seconds for a request's body to arrive


def create_app(parts: Parts) -> Auditing:
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
    parts.metrics.show(parts.ledger, parts.access, parts.loop.resources, parts.home, parts.operations.idle)
    for resource in (status, jobs, people):
        app.include_router(resource.router)
    tracking = Tracking(parts.tracking, parts.tracking_pages)
    sessions = Sessions(parts.guard, parts.home)
    around = (tracking, parts.endpoint, parts.home, parts.devices)
    add_pages(app, Site(parts.operations, sessions, parts.forecaster, *around))
    rules = Rules(limit=parts.config.body, patience=PATIENCE, refuse=refuse)
    return Auditing(Wrapper(app, rules, parts.metrics.telemetry), parts.operations.audit)
