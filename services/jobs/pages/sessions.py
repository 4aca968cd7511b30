"""Sessions of browsers in signed cookies, and the word that each form has to send back."""

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from fastapi import HTTPException, Request, Response
from itsdangerous import BadData, URLSafeSerializer
from pydantic import BaseModel, FiniteFloat, ValidationError

from dragoman.model.files import secret_file
from dragoman.services.http.rates import digest_of
from dragoman.services.jobs.bodies import NAME
from dragoman.services.jobs.http.guard import ANONYMOUS, Guard
from dragoman.services.jobs.ledger.access import Person, TokenExpiredError
from dragoman.services.jobs.ledger.asked import tell_person
from dragoman.services.jobs.options import this_user

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
        person = (self.guard.proxied(request) if self.guard.keys else None) or self._person(session)
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
        if not self.guard.keys:
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
    name = this_user()
    return name if re.fullmatch(NAME, name) and len(name) <= 160 else ANONYMOUS
