"""Shared by all pages: templates, the visitor, security headers, and problems shown on the page."""

import getpass
import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from itsdangerous import BadData, URLSafeSerializer
from jinja2 import Environment
from markupsafe import Markup
from pydantic import BaseModel, FiniteFloat, ValidationError
from starlette.datastructures import FormData

from dragoman.model.errors import UserError, reason
from dragoman.model.files import secret_file
from dragoman.model.text.excerpt import for_markup
from dragoman.services.http.pages import page_headers, page_templates
from dragoman.services.jobs.bodies import NAME
from dragoman.services.jobs.client.table import reason_beyond
from dragoman.services.jobs.http.guard import ANONYMOUS, Guard
from dragoman.services.jobs.http.problems import STATUS
from dragoman.services.jobs.ledger.access import Person, Role, TokenExpiredError, digest_of
from dragoman.services.jobs.ledger.asked import tell_person
from dragoman.services.jobs.ledger.ledger import UnknownJobError
from dragoman.services.jobs.service import words
from dragoman.services.jobs.service.charts import Journals
from dragoman.services.jobs.service.forecaster import Forecaster
from dragoman.services.jobs.service.operations import Operations
from dragoman.services.jobs.service.shard_folders import ShardFolders
from dragoman.services.jobs.service.sharing import Sharing
from dragoman.services.jobs.service.sign_in import Devices
from dragoman.services.jobs.service.tracking import Tracking
from dragoman.services.jobs.states import ACTIVE, ENDED, QUEUED

COOKIE = "dragoman_session"
LASTS = 7 * 86_400.0  # seconds from signing in


class LoginNeededError(Exception):
    """The page needs a token, and this browser has no valid one."""


@dataclass(frozen=True)
class Visitor:
    """A user at a browser."""

    person: Person
    csrf: str  # the secret that forms must send back
    cookie: str | None = None  # to set: the browser has none yet


class Session(BaseModel, strict=True):
    """The signed content of a cookie."""

    id: str
    token: str | None  # its digest; None: nobody is signed in
    at: FiniteFloat  # seconds since the epoch, when it began


class Sessions:
    """Cookies of one service."""

    def __init__(self, guard: Guard, home: Path) -> None:
        self.guard, self.access = guard, guard.access
        # stored, so that a restart signs nobody out
        self._secret = secret_file(home / "service" / "session_key", secrets.token_hex(32))
        self._signer = URLSafeSerializer(self._secret, salt="session")

    @property
    def keys(self) -> bool:
        """Returns True if a token is needed."""
        return self.guard.keys

    def visitor(self, request: Request) -> Visitor:
        """Returns the visitor of a page.

        Raises:
            LoginNeededError: the visitor is not known.
            HTTPException: 403 from a foreign page, 429 too often.
        """
        self.guard.refuse_foreign(request)
        session, fresh = self._read(request), None
        if session is None:
            session = Session(id=secrets.token_urlsafe(18), token=None, at=time.time())
            fresh = str(self._signer.dumps(session.model_dump()))
        person = (self.guard.proxied(request) if self.keys else None) or self._person(session)
        self.guard.count(person.owner)
        return Visitor(person, self._csrf(session.id), fresh)

    def check_form(self, request: Request, word: object) -> Visitor:
        """Returns the sender of a form."""
        visitor = self.visitor(request)
        if visitor.cookie is not None or not hmac.compare_digest(str(word).encode(), visitor.csrf.encode()):
            raise HTTPException(403, "this form is not of this session: load the page anew and send it again")
        return visitor

    def sign_in(self, request: Request, token: str) -> str | None:
        """Returns the cookie for a token; None for an unknown token.

        Raises:
            HTTPException: 429 too many attempts.
            TokenExpiredError: its end has passed.
        """
        self.guard.refuse_foreign(request)
        if self.guard.look_up(request, token) is None:
            return None
        session = Session(id=secrets.token_urlsafe(18), token=digest_of(token), at=time.time())
        return str(self._signer.dumps(session.model_dump()))

    def set_cookie(self, request: Request, response: Response, value: str) -> None:
        """Sets SameSite=Lax, so that a link from MLflow or a mail opens signed in; forms have their own secret."""
        lasts, secure = round(LASTS), _is_secure(request)
        response.set_cookie(COOKIE, value, max_age=lasts, httponly=True, samesite="lax", secure=secure, path="/")

    def _person(self, session: Session) -> Person:
        if not self.keys:
            tell_person(_login_name())
            return Person(_login_name(), "admin")
        try:
            token = self.access.holder(session.token) if session.token else None
        except TokenExpiredError:
            token = None
        if token is None:
            raise LoginNeededError
        return token

    def _read(self, request: Request) -> Session | None:
        try:
            session = Session.model_validate(self._signer.loads(request.cookies.get(COOKIE, "")))
        except (BadData, ValidationError):
            return None
        return session if time.time() - session.at < LASTS else None

    def _csrf(self, name: str) -> str:
        return hmac.new(self._secret.encode(), f"form {name}".encode(), hashlib.sha256).hexdigest()


def _is_secure(request: Request) -> bool:
    return request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"


def _login_name() -> str:
    """Returns the owner of jobs submitted on loopback: the service's user, as on the command line."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return name if re.fullmatch(NAME, name) and len(name) <= 160 else ANONYMOUS


FOLDER = Path(__file__).resolve().parent
HEADERS = page_headers("'self' data:")
KNOWN: tuple[type[Exception], ...] = (*STATUS, RequestValidationError, HTTPException)
TITLES = {403: "Not allowed", 404: "Not found", 409: "Not now", 429: "Too many requests", 503: "No answer"}
Body = TypeVar("Body", bound=BaseModel)
BREAKS = re.compile(r"([/_.=,-]+)")


@dataclass(frozen=True)
class Link:
    """A link from a job or a version, forward or back; without an address it is only text."""

    label: str
    text: str
    address: str = ""
    outside: bool = False


class Refusal(Exception):  # noqa: N818  # a problem shown on a page
    """A problem in the page's words."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


@dataclass
class PageContext:
    """The parts that pages are made of."""

    operations: Operations
    sessions: Sessions
    forecaster: Forecaster
    tracking: Tracking
    endpoint: str  # its address; empty: there is none
    home: Path
    devices: Devices  # command lines that wait to be let in
    journals: Journals = field(default_factory=Journals)
    templates: Environment = field(init=False)
    shards: ShardFolders = field(init=False)
    sharing: Sharing = field(init=False)

    def __post_init__(self) -> None:
        self.shards = ShardFolders(self.operations.loop.intake.places, self.home)
        self.sharing = Sharing(self.sessions.access, self.operations.loop.intake.projects)
        self.templates = page_templates(FOLDER, "/static/")
        named = ("span", "when", "hour", "iso", "number", "short", "size", "between", "priority", "plain")
        self.templates.filters |= {name: getattr(words, name) for name in named}
        self.templates.filters |= {"breaks": breaks, "reason_beyond": reason_beyond}
        self.templates.globals |= {
            "ENDED": ENDED,
            "ACTIVE": ACTIVE,
            "QUEUED": QUEUED,
            "tracking": self.tracking,
            "endpoint": self.endpoint,
        }

    @property
    def now(self) -> float:
        return self.operations.ledger.now()

    def newest(self) -> int:
        """Returns the number of the last change: whoever waits for a newer one need not ask the ledger."""
        return self.operations.ledger.newest

    def visitor(self, request: Request, role: Role = "viewer") -> Visitor:
        """Returns the visitor. Raises LoginNeededError, HTTPException: the visitor is unknown or may not see this."""
        visitor_of_session = self.sessions.visitor(request)
        self._check_role(visitor_of_session, role)
        return visitor_of_session

    async def form(self, request: Request, role: Role = "submitter") -> tuple[Visitor, FormData]:
        """Returns the sender of a form and its values.

        Raises LoginNeededError, HTTPException: the sender is unknown or may not do this, or the form is foreign.
        """
        sent = await request.form(max_files=0, max_fields=1000)
        visitor_of_session = self.sessions.check_form(request, sent.get("csrf", ""))
        self._check_role(visitor_of_session, role)
        return visitor_of_session, sent

    def render(self, template: str, **context: Any) -> str:
        """Returns a template or a part of a page as HTML."""
        return for_markup(self.templates.get_template(template).render(**context))

    def page(self, request: Request, visitor: Visitor, template: str, status: int = 200, **context: Any) -> Response:
        loop = self.operations.loop
        shared = {"visitor": visitor, "csrf": visitor.csrf, "person": visitor.person, "keys": self.sessions.keys}
        shared |= {"now": self.now, "trouble": loop.trouble, "path": request.url.path, "stream": "", "problem": ""}
        text = self.render(template, **{**shared, **context})
        answer = HTMLResponse(text, status, headers=HEADERS)
        if visitor.cookie is not None:
            self.sessions.set_cookie(request, answer, visitor.cookie)
        return answer

    def _check_role(self, visitor: Visitor, role: Role) -> None:
        if not visitor.person.may(role):
            raise HTTPException(403, f"this needs the role {role}; yours is {visitor.person.role}")


def breaks(text: object) -> Markup:
    """Returns a long name with places where a line may break."""
    parts = BREAKS.split(str(text))
    return Markup("<wbr>").join(parts[index] + (parts[index + 1] if index + 1 < len(parts) else "")
                                for index in range(0, len(parts), 2))  # fmt: skip


def part(name: str, text: str) -> dict[str, str]:
    """Returns a part of a page with a hash of its content; running times do not count as a change."""
    steady = re.sub(r"(<time data-since[^>]*>)[^<]*", r"\1", text)
    return {"id": name, "html": text, "mark": hashlib.sha256(steady.encode()).hexdigest()[:16]}


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


def page_route(site: PageContext) -> type[APIRoute]:
    """Returns a route class that shows problems as pages; visitors without a session go to the login and back."""

    class PageRoute(APIRoute):
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
                    return problem_page(site, request, refusal_of(problem))

            return answer

    return PageRoute


def problem_page(site: PageContext, request: Request, problem: Refusal) -> Response:
    """Returns a page with the problem and the way back."""
    try:
        visitor = site.sessions.visitor(request)
    except (LoginNeededError, HTTPException):  # a page for an unknown visitor
        text = site.render("stranger.html", title=TITLES.get(problem.status, "That went wrong"), problem=problem.text)
        return HTMLResponse(text, problem.status, headers=HEADERS)
    title = TITLES.get(problem.status, "That went wrong")
    return site.page(request, visitor, "problem.html", problem.status, title=title, problem=problem.text)
