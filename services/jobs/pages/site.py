"""Shared by all pages: templates, the visitor, security headers, and problems shown on the page."""

import hashlib
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse
from fastapi.routing import APIRoute
from jinja2 import Environment
from markupsafe import Markup
from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData

from dragoman.model.errors import UserError, reason
from dragoman.model.text.excerpt import for_markup
from dragoman.services.http.pages import page_headers, page_templates
from dragoman.services.jobs.client.table import reason_beyond
from dragoman.services.jobs.http.parts import ServiceParts
from dragoman.services.jobs.http.problems import STATUS
from dragoman.services.jobs.http.streams import event_stream
from dragoman.services.jobs.ledger.access import Person, Role
from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.ledger.ledger import UnknownJobError
from dragoman.services.jobs.pages import formats
from dragoman.services.jobs.pages.charts import Journals
from dragoman.services.jobs.pages.sessions import LoginNeededError, Sessions, Visitor
from dragoman.services.jobs.service.operations import Operations
from dragoman.services.jobs.service.tracking import Tracking
from dragoman.services.jobs.states import ACTIVE, ENDED, QUEUED

FOLDER = Path(__file__).resolve().parent
HEADERS = page_headers("'self' data:")
KNOWN: tuple[type[Exception], ...] = (*STATUS, RequestValidationError, HTTPException)
TITLES = {403: "Not allowed", 404: "Not found", 409: "Not now", 429: "Too many requests", 503: "No answer"}
Body = TypeVar("Body", bound=BaseModel)
Parts = Mapping[str, str]  # id of an element -> its HTML
BREAKS = re.compile(r"([/_.=,-]+)")


@dataclass(frozen=True)
class Link:
    """A link from a job or a version, forward or back; without an address it is only text."""

    label: str
    text: str
    address: str = ""
    outside: bool = False


class Refusal(NamedTuple):
    """A problem in the page's words."""

    status: int
    text: str


class PageContext:
    """The parts that pages are made of, beside those of the service."""

    def __init__(self, parts: ServiceParts) -> None:
        self.operations, self.access = parts.operations, parts.access
        self.home, self.health = parts.home, parts.health
        self.sessions = Sessions(parts.guard, parts.home)
        self.tracking = Tracking(parts.tracking, parts.tracking_pages)
        self.journals = Journals()
        self.templates = templates(tracking=self.tracking, dashboard=parts.dashboard)

    def render(self, template: str, **context: Any) -> str:
        """Returns a template or a part of a page as HTML."""
        return for_markup(self.templates.get_template(template).render(**context))


def templates(**more: object) -> Environment:
    """Returns the templates, which read `more` beside what a page shows."""
    made = page_templates(FOLDER, "/static/")
    named = ("span", "when", "iso", "number", "short", "size", "priority", "plain")
    made.filters |= {name: getattr(formats, name) for name in named}
    made.filters |= {"breaks": breaks, "reason_beyond": reason_beyond}
    made.globals |= {"ENDED": ENDED, "ACTIVE": ACTIVE, "QUEUED": QUEUED, **more}
    return made


class Question(NamedTuple):
    """A question before an action that cannot be undone."""

    question: str
    button: str
    what: str  # what happens then


@dataclass(frozen=True)
class Page:
    """A page that a visitor asks for, with the form that they sent."""

    site: PageContext
    request: Request
    visitor: Visitor
    sent: FormData = field(default_factory=FormData)

    @property
    def person(self) -> Person:
        return self.visitor.person

    @property
    def operations(self) -> Operations:
        return self.site.operations

    @property
    def now(self) -> float:
        return self.operations.ledger.now()

    def job(self, name: str) -> Job:
        """Returns a job. Raises UnknownJobError if there is none, or the visitor may not see it."""
        return self.operations.job(self.person, name)

    def text(self, key: str) -> str:
        """Returns a field of the form; empty if it has none."""
        return str(self.sent.get(key, "")).strip()

    def done(self, messages: Mapping[str, str]) -> str:
        """Returns what the action that led here has done; empty if none did."""
        return messages.get(self.request.query_params.get("done", ""), "")

    def render(self, template: str, **context: Any) -> str:
        """Returns a template with what all of them show, as HTML."""
        shared = {
            "csrf": self.visitor.csrf,
            "person": self.person,
            "keys": self.site.sessions.guard.keys,
            "now": self.now,
        }
        shared |= {"trouble": self.site.health.trouble(), "path": self.request.url.path}
        return self.site.render(template, **{**shared, "stream": "", "problem": "", "done": "", **context})

    def show(self, template: str, status: int = 200, **context: Any) -> Response:
        answer = HTMLResponse(self.render(template, **context), status, headers=HEADERS)
        if self.visitor.cookie is not None:
            self.site.sessions.set_cookie(self.request, answer, self.visitor.cookie)
        return answer

    def ask(self, question: Question, title: str, about: str, *above: tuple[str, str]) -> Response:
        """Returns the page that asks, and whose form is sent to its own address.

        `above`: address and label of the pages that lead here.
        """
        action = quote(self.request.url.path)
        return self.show("ask.html", **question._asdict(), title=title, about=about, above=above, action=action)

    def stream(self, source: AsyncGenerator[str]) -> StreamingResponse:
        """Returns a stream of the page's changes."""
        return event_stream(source, self.site.sessions.access, self.person)


def _page(role: Role) -> Any:
    def page(request: Request) -> Page:
        site: PageContext = request.app.state.pages
        return _admitted(Page(site, request, site.sessions.visitor(request)), role)

    return Depends(page)


def _form(role: Role) -> Any:
    async def form(request: Request) -> Page:
        site: PageContext = request.app.state.pages
        sent = await request.form(max_files=0, max_fields=1000)
        visitor = await run_in_threadpool(site.sessions.check_form, request, sent.get("csrf", ""))
        return _admitted(Page(site, request, visitor, sent), role)

    return Depends(form)


def _admitted(page: Page, role: Role) -> Page:
    if not page.person.may(role):
        raise HTTPException(403, f"this needs the role {role}; yours is {page.person.role}")
    return page


# What a route takes: LoginNeededError and HTTPException say that the visitor is unknown, may not do this, or that the
# form is foreign.
Viewer = Annotated[Page, _page("viewer")]
Submitter = Annotated[Page, _page("submitter")]
ViewerForm = Annotated[Page, _form("viewer")]
SubmitterForm = Annotated[Page, _form("submitter")]
AdminForm = Annotated[Page, _form("admin")]


def breaks(text: object) -> Markup:
    """Returns a long name with places where a line may break."""
    parts = BREAKS.split(str(text))
    return Markup("<wbr>").join(parts[index] + (parts[index + 1] if index + 1 < len(parts) else "")
                                for index in range(0, len(parts), 2))  # fmt: skip


def marked(parts: Parts) -> dict[str, dict[str, str]]:
    """Returns the parts of a page, each with a hash of its content; running times do not count as a change."""
    marks = {}
    for name, text in parts.items():
        steady = re.sub(r"(<time data-since[^>]*>)[^<]*", r"\1", text)
        marks[name] = {"id": name, "html": text, "mark": hashlib.sha256(steady.encode()).hexdigest()[:16]}
    return marks


def validated(kind: type[Body], values: Mapping[str, Any], sign: str = "") -> Body:
    """Returns a body of the REST interface. Raises UserError for a field that is out of its bounds; with a `sign` after
    its name its value is told too."""
    try:
        return kind.model_validate(dict(values))
    except ValidationError as problem:
        first = problem.errors()[0]
        place, *_ = first["loc"]
        key = f"{place}{sign}{values.get(str(place))}" if sign else ".".join(map(str, first["loc"]))
        raise UserError(f"{key}: {first['msg']}") from None


def refusal_of(problem: Exception) -> Refusal:
    """Returns what a page says about a problem."""
    if isinstance(problem, HTTPException):
        return Refusal(problem.status_code, str(problem.detail))
    if isinstance(problem, UnknownJobError):
        return Refusal(404, f"There is no job {problem.args[0]}, or it is not yours.")
    if isinstance(problem, RequestValidationError):
        first = problem.errors()[0]
        return Refusal(422, f"{'.'.join(map(str, first['loc'][1:]))}: {first['msg']}")
    code = next((code for kind, code in STATUS.items() if isinstance(problem, kind)), 500)
    return Refusal(code, reason(problem))


class PageRoute(APIRoute):
    """A route that shows problems as pages; visitors without a session go to the login and back."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except LoginNeededError:
                if request.url.path.startswith("/live/"):
                    return Response(status_code=401)
                next_page = request.url.path if request.method == "GET" else "/"
                query = f"?{request.url.query}" if request.url.query and request.method == "GET" else ""
                return RedirectResponse(f"/login?next={quote(next_page + query, safe='/')}", 303)
            except KNOWN as problem:
                return problem_page(request, refusal_of(problem))

        return answer


def page_router() -> APIRouter:
    """Returns a router for pages."""
    return APIRouter(route_class=PageRoute, include_in_schema=False)


def problem_page(request: Request, problem: Refusal) -> Response:
    """Returns a page with the problem and the way back."""
    site: PageContext = request.app.state.pages
    shown = {"title": TITLES.get(problem.status, "That went wrong"), "problem": problem.text}
    try:
        page = Page(site, request, site.sessions.visitor(request))
    except (LoginNeededError, HTTPException):  # a page for an unknown visitor
        return HTMLResponse(site.render("stranger.html", **shown), problem.status, headers=HEADERS)
    return page.show("problem.html", problem.status, **shown)
