"""Puts the job service's application together: the REST interface and the pages."""

from fastapi import FastAPI

from dragoman.services.http.answers import refusal
from dragoman.services.http.connections import Clients
from dragoman.services.http.documentation import documentation_routes
from dragoman.services.http.middleware import INTERNAL, Guard
from dragoman.services.jobs.http import routes
from dragoman.services.jobs.http.access_log import AccessLog
from dragoman.services.jobs.http.parts import ServiceParts
from dragoman.services.jobs.http.problems import add_handlers
from dragoman.services.jobs.pages.routes import add_pages
from dragoman.services.jobs.pages.site import PageContext
from dragoman.services.telemetry import UNMEASURED
from dragoman.services.version import version


def create_app(parts: ServiceParts) -> AccessLog:
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
    app.routes.extend(documentation_routes())
    app.include_router(routes.state_router)
    app.include_router(routes.router)
    app.state.pages = PageContext(parts)
    add_pages(app)
    app.add_middleware(
        Guard,
        telemetry=parts.loop.metrics.telemetry,
        limit=parts.config.body,
        seconds=parts.config.receive_timeout,
        clients=Clients(parts.config.per_address, parts.config.proxies),
        private=lambda: not parts.guard.keys,
        fail=lambda _: refusal(500, INTERNAL),
    )
    return AccessLog(app, parts.home / "service" / "access.jsonl")
