"""Authentication: an authenticating proxy, bearer tokens, or on the loopback interface without tokens the user's claim.

A browser on another site's page must not be able to submit jobs. So changes need JSON, which a page of another origin
may not send without permission. Requests with a foreign Origin are refused, and on loopback also those with another
Host (`services/http/middleware.py`).
"""

import hmac
import re

from fastapi import HTTPException, Request

from dragoman.model.errors import UserError
from dragoman.model.names import check_name
from dragoman.services.http.rates import Guesses, Rate
from dragoman.services.jobs.bodies import NAME
from dragoman.services.jobs.ledger.access import OTHERS, ROLES, SYSTEM, Access, Person, Role, TokenExpiredError
from dragoman.services.jobs.ledger.asked import tell_person
from dragoman.services.jobs.settings import ANYBODY, ProxyConfig

ANONYMOUS = "anonymous"
OWNER_HEADER = "X-Dragoman-Owner"  # trusted only if no tokens are needed
LASTS = 600.0  # seconds after which an open stream ends, so that the proxy is asked again


class Proxy:
    """The proxy in front of the service."""

    def __init__(self, config: ProxyConfig, secret: str, access: Access) -> None:
        self.config, self.access, self._secret = config, access, secret.encode()

    def person(self, request: Request) -> Person | None:
        """Returns whom the proxy names; None if the request names nobody."""
        names = request.headers.getlist(str(self.config.header))
        if not names:
            return None
        secrets = request.headers.getlist(self.config.secret_header)
        if len(secrets) != 1 or not hmac.compare_digest(secrets[0].encode(), self._secret):
            raise HTTPException(401, f"{self.config.header} came without the proxy's secret")
        if len(names) > 1:
            raise HTTPException(403, f"{self.config.header} came {len(names)} times; the proxy sets it once")
        owner = self._owner(names[0])
        header_values = ",".join(request.headers.getlist(self.config.groups_header)).split(",")
        groups = frozenset(filter(None, map(str.strip, header_values)))
        role = next((role_name for role_name in reversed(ROLES) if self._has(role_name, groups)), None)
        if role is None:
            raise HTTPException(
                403, f"none of your {len(groups)} groups is let in; an administrator adds one to service.proxy.roles"
            )
        tell_person(owner)
        return Person(owner, role, "", self.access.ledger.now() + LASTS, groups & frozenset(self.config.teams))

    def _owner(self, name: str) -> str:
        if self.config.domain is not None:
            name, _, domain = name.rpartition("@")
            if domain != self.config.domain:
                raise HTTPException(403, f"{self.config.header}: no name of {self.config.domain}")
        try:
            owner = check_name(str(self.config.header), name)
        except UserError as problem:
            raise HTTPException(403, str(problem)) from None
        if owner in SYSTEM or owner == OTHERS or owner in self.config.teams:
            raise HTTPException(403, f"the name {owner!r} is the service's own, or a team's")
        return owner

    def _has(self, role: Role, groups: frozenset[str]) -> bool:
        groups_of_role = self.config.roles.get(role, [])
        return ANYBODY in groups_of_role or not groups.isdisjoint(groups_of_role)


class Guard:
    """Guards every route but /status."""

    def __init__(self, access: Access, always: bool, rate: Rate, proxy: Proxy | None = None) -> None:
        """`always`: a token is needed even if none was issued."""
        self.access, self.always, self.rate, self.proxy = access, always, rate, proxy
        self.guesses = Guesses()

    @property
    def keys(self) -> bool:
        """Returns True if a token is needed."""
        return self.always or self.access.issued

    def person(self, request: Request) -> Person:
        """Returns the user of a request."""
        self.refuse_foreign(request)
        self.refuse_untyped(request)
        if self.keys:
            person = self.proxied(request) or self._bearer(request)
        else:
            owner = request.headers.get(OWNER_HEADER, ANONYMOUS)
            if not re.fullmatch(NAME, owner) or len(owner) > 160:
                raise HTTPException(400, f"{OWNER_HEADER}: no name")
            person = Person(owner, "admin")
            tell_person(owner)
        self.count(person.owner)
        return person

    def proxied(self, request: Request) -> Person | None:
        """Returns whom the proxy names, if there is one; None if it names nobody. Raises HTTPException as it does."""
        if self.proxy is None:
            return None
        try:
            return self.proxy.person(request)
        except HTTPException:
            self.count_address(request)
            raise

    def _bearer(self, request: Request) -> Person:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        why = "a valid bearer token is needed"
        try:
            if person := self.look_up(request, token.strip() if scheme.lower() == "bearer" else ""):
                return person
        except TokenExpiredError as problem:
            why = str(problem)
        raise HTTPException(401, why, {"WWW-Authenticate": "Bearer"})

    def look_up(self, request: Request, token: str) -> Person | None:
        """Returns the user of a token; None if it lets nobody in.

        Raises:
            HTTPException: 429, too many wrong ones came from this address.
            TokenExpiredError: its end has passed.
        """
        if not token:
            self.count_address(request)
            return None
        address = request.client.host if request.client else ""
        _refuse(self.guesses.wait(address, token), "too many wrong tokens from this address")
        person = self.access.person(token)
        if person is not None:
            self.guesses.right(address, token)
        return person

    def count(self, who: str) -> None:
        """Raises HTTPException (429) if a user asks too often."""
        _refuse(self.rate.take(who), "too many requests")

    def refuse_untyped(self, request: Request) -> None:
        """Raises HTTPException (415) for a body that another site's page could send."""
        typed = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.method in ("POST", "PUT") and typed != "application/json":
            raise HTTPException(415, "the body must be application/json")

    def count_address(self, request: Request) -> None:
        """Raises HTTPException: 429 if unknown people ask too often from an address, 403 from a foreign page."""
        self.refuse_foreign(request)
        self.count(f"address {request.client.host if request.client else ''}")

    def refuse_foreign(self, request: Request) -> None:
        """Raises HTTPException (403) for requests from another site's page."""
        host = request.headers.get("host", "")
        origin = request.headers.get("origin")
        if origin is not None and re.sub(r"^https?://", "", origin) != host:
            raise HTTPException(403, "requests from pages of other origins are refused")


def _refuse(wait: float, message: str) -> None:
    if wait:
        raise HTTPException(429, message, {"Retry-After": str(max(1, round(wait)))})
