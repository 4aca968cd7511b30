"""Sign-ins: of people whom an authenticating proxy lets in, and of command lines whose code they type on a page."""

import hmac
import secrets
import threading
from dataclasses import dataclass

from fastapi import HTTPException, Request
from sqlalchemy import update

from dragoman.model.errors import UserError
from dragoman.model.names import check_name
from dragoman.services.jobs.ledger.access import OTHERS, ROLES, SYSTEM, Access, Person, Role, digest_of
from dragoman.services.jobs.ledger.asked import tell_person
from dragoman.services.jobs.ledger.own_tokens import ISSUER, LOGIN, OwnTokens
from dragoman.services.jobs.ledger.projects import enter_by_groups, memberships
from dragoman.services.jobs.ledger.tables import Token
from dragoman.services.jobs.settings import ANYBODY, ProxyConfig

LASTS = 600.0  # seconds after which an open stream ends, so that the proxy is asked again
RECORDED = 60.0  # seconds until a person's groups are compared with the ledger again


class Proxy:
    """The proxy in front of the service."""

    def __init__(self, config: ProxyConfig, secret: str, access: Access) -> None:
        self.config, self.access, self._secret = config, access, secret.encode()
        self._recorded: dict[str, tuple[Role | None, frozenset[str], float]] = {}  # owner -> role, groups, when
        self._lock = threading.Lock()

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
        self._record(owner, role, groups)
        if role is None:
            raise HTTPException(
                403, f"none of your {len(groups)} groups is let in; an administrator adds one to service.proxy.roles"
            )
        tell_person(owner)
        ledger = self.access.ledger
        with ledger.database.read() as session:
            return Person(owner, role, "", ledger.now() + LASTS, *memberships(session, owner))

    def _owner(self, name: str) -> str:
        if self.config.domain is not None:
            name, _, domain = name.rpartition("@")
            if domain != self.config.domain:
                raise HTTPException(403, f"{self.config.header}: no name of {self.config.domain}")
        try:
            owner = check_name(str(self.config.header), name)
        except UserError as problem:
            raise HTTPException(403, str(problem)) from None
        if owner in SYSTEM or owner == OTHERS:
            raise HTTPException(403, f"the name {owner!r} is the service's own")
        return owner

    def _has(self, role: Role, groups: frozenset[str]) -> bool:
        groups_of_role = self.config.roles.get(role, [])
        return ANYBODY in groups_of_role or not groups.isdisjoint(groups_of_role)

    def _record(self, owner: str, role: Role | None, groups: frozenset[str]) -> None:
        """Enters the person into the projects of their groups, and ends their tokens with a greater role."""
        now = self.access.ledger.now()
        recorded = self._recorded.get(owner)
        if recorded is not None and recorded[:2] == (role, groups) and now - recorded[2] < RECORDED:
            return
        greater = ROLES[ROLES.index(role) + 1 :] if role else ROLES
        theirs = Token.owner == owner, Token.made_with == ISSUER, Token.revoked.is_(None), Token.role.in_(greater)
        with self._lock:  # two first requests of one person
            with self.access.ledger.write() as session:
                session.execute(update(Token).where(*theirs).values(revoked=now))
                for change in enter_by_groups(session, owner, groups if role else ()):
                    self.access.ledger.note(session, owner, "project", change, owner)
            self._recorded[owner] = role, groups, now


LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # no vowels, so no words; RFC 8628, 6.1
WAITS = 600.0  # seconds until it was typed
MOST = 1000  # at once
GUESSES = 10  # wrong codes of one owner within WAITS


@dataclass
class WaitingLogin:
    """A command line that waits."""

    code: str  # that its owner types
    address: str
    until: float
    token: str | None = None  # once it is let in
    refused: bool = False


class Devices:
    """The command lines that wait to be let in."""

    def __init__(self, own: OwnTokens, lasts: float) -> None:
        """`lasts`: seconds of the tokens that are given."""
        self.own, self._lasts = own, lasts
        self._lock = threading.Lock()
        self._waiting: dict[str, WaitingLogin] = {}  # by the hash of the command line's own secret
        self._guesses: dict[str, list[float]] = {}  # times of an owner's wrong codes

    def _now(self) -> float:
        return self.own.ledger.now()

    def ask(self, address: str) -> tuple[str, str]:
        """Returns a command line's secret, and the code to type. Raises UserError: too many wait."""
        secret, code = secrets.token_urlsafe(32), "".join(secrets.choice(LETTERS) for _ in range(8))
        with self._lock:
            self._forget_old()
            if len(self._waiting) >= MOST:
                raise UserError("too many sign-ins wait; try again in some minutes")
            self._waiting[digest_of(secret)] = WaitingLogin(f"{code[:4]}-{code[4:]}", address, self._now() + WAITS)
        return secret, f"{code[:4]}-{code[4:]}"

    def decide(self, person: Person, code: str, allowed: bool) -> str:
        """Lets the command line with this code in as `person`, or keeps it out; returns its address."""
        letters = "".join(letter for letter in code.upper() if letter in LETTERS)
        with self._lock:
            self._forget_old()
            guesses = self._guesses.setdefault(person.owner, [])
            if len(guesses) >= GUESSES:
                raise UserError("too many wrong codes; try again in some minutes")
            for login in self._waiting.values():
                if login.code.replace("-", "") == letters and login.token is None and not login.refused:
                    if allowed:
                        login.token = self.own.lend(person, LOGIN, self._lasts)
                    login.refused = not allowed
                    return login.address
            guesses.append(self._now())
        raise UserError("no command line waits with this code: it is wrong, or older than 10 minutes")

    def take(self, secret: str) -> str | None:
        """Returns the token of a command line that was let in, once; None while it waits."""
        key = digest_of(secret)
        with self._lock:
            self._forget_old()
            login = self._waiting.get(key)
            if login is not None and login.token is None and not login.refused:
                return None
            self._waiting.pop(key, None)
        if login is None or login.token is None:
            raise UserError("this sign-in was refused, or is older than 10 minutes; run dragoman login again")
        return login.token

    def _forget_old(self) -> None:
        now = self._now()
        self._waiting = {key: login for key, login in self._waiting.items() if login.until > now}
        recent = {owner: [at for at in times if now - at < WAITS] for owner, times in self._guesses.items()}
        self._guesses = {owner: times for owner, times in recent.items() if times}
