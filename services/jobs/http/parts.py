"""The service's objects that the routes use, and the user of a request, who needs a role."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path as Folder
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Path, Request
from fastapi.concurrency import run_in_threadpool

from dragoman.services.http.rates import Rate
from dragoman.services.jobs.bodies import JobName, Owner
from dragoman.services.jobs.http.guard import Guard, Proxy
from dragoman.services.jobs.ledger.access import Access, Person
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.service.health import Health
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.service.operations import Operations
from dragoman.services.jobs.settings import ServiceConfig

Id = Annotated[JobName, Path()]
Name = Annotated[Owner, Path()]


@dataclass(frozen=True)
class ServiceParts:
    """The objects that the application uses."""

    ledger: Ledger
    access: Access
    loop: Loop
    config: ServiceConfig
    home: Folder
    keys: bool  # True: a token is required even if none was issued
    tracking: str = ""  # MLflow's address for the service; empty: none
    tracking_pages: str = ""  # and for browsers, if it is another
    dashboard: str = ""  # Ray's; empty: none
    url: str = ""  # of the pages, as people open them
    proxy: Proxy | None = None  # that lets people in
    children: Callable[[], dict[str, str]] = dict  # the states of the processes that `up` has started

    @cached_property
    def guard(self) -> Guard:
        return Guard(self.access, self.keys, Rate(self.config.rate, self.config.burst), self.proxy)

    @cached_property
    def operations(self) -> Operations:
        return Operations(self.ledger, self.loop, self.config)

    @cached_property
    def health(self) -> Health:
        return Health(self.loop, self.tracking, self.children)


async def parts_of(request: Request) -> ServiceParts:
    parts: ServiceParts = request.app.state.parts
    return parts


def _asks(role: Any) -> Callable[..., Coroutine[Any, Any, Person]]:
    async def check(request: Request) -> Person:
        guard = request.app.state.parts.guard
        # a token is looked up in the ledger; where none is required, a thread would cost more than the answer
        person: Person = await run_in_threadpool(guard.person, request) if guard.keys else guard.person(request)
        if not person.may(role):
            raise HTTPException(403, f"needs the role {role}")
        return person

    return check


Here = Annotated[ServiceParts, Depends(parts_of)]
Scraper = Annotated[Person, Depends(_asks("metrics"))]
Viewer = Annotated[Person, Depends(_asks("viewer"))]
Submitter = Annotated[Person, Depends(_asks("submitter"))]
Admin = Annotated[Person, Depends(_asks("admin"))]
