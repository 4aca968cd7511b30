"""Access control: bearer tokens, stored as sha256, with roles and ends; what they lend to jobs; quotas by owner."""

import contextlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from sqlalchemy import ColumnElement, func, or_, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from dragoman.model.errors import UserError, unknown
from dragoman.model.names import check_name
from dragoman.services.http.rates import digest_of
from dragoman.services.jobs.ledger.asked import tell_person
from dragoman.services.jobs.ledger.database import Job, Quota, Token
from dragoman.services.jobs.ledger.filters import moment_of
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.statements import ANY_TOKEN, JOBS
from dragoman.services.jobs.states import Quota as Limits

Role = Literal["metrics", "viewer", "submitter", "admin"]  # each includes the ones before it
ROLES: tuple[Role, ...] = get_args(Role)
SEES_ALL = ("metrics", "admin")  # roles that see every owner; `metrics` opens only /metrics
OTHERS = "another owner"  # shown instead of a name that the user may not see
SYSTEM = ("scheduler", "service", "planner", "up")  # actors of the record of changes that are no users
FROM_FILE = "file-"  # prefix of the names of tokens from files
SHORTEST = 32  # characters of a token that was made elsewhere
PROXY = "proxy"  # in the place of a token's hash: the authenticating proxy let the job's submitter in
USED_EVERY = 60.0  # seconds between two records of a token's last use


class TokenExpiredError(Exception):
    """The end of the token has passed; the message names it."""


@dataclass(frozen=True)
class Person:
    """The user of a request: a viewer sees, a submitter submits and stops their own jobs, an admin does everything.

    An owner is a person or a team. `sees` is the only rule for who sees whom. All code that shows an owner, or an
    owner's jobs, asks it.
    """

    owner: str
    role: Role
    proof: str = field(default="", compare=False, repr=False)  # hash of their token in the ledger; empty: it has none
    until: float | None = field(default=None, compare=False)  # end of what the proxy has said
    teams: frozenset[str] = frozenset()  # other owners as whom they act

    def may(self, role: Role) -> bool:
        """Returns True if the role includes `role`."""
        return ROLES.index(self.role) >= ROLES.index(role)

    @property
    def sees_all(self) -> bool:
        """Returns True if this user sees every owner."""
        return self.role in SEES_ALL

    @property
    def owners(self) -> list[str]:
        """Returns the owners as whom this user acts, themself first."""
        return [self.owner, *sorted(self.teams)]

    def sees(self, owner: str | None) -> bool:
        """Returns True if this user may see an owner's jobs and name, and with the role may change them."""
        return self.sees_all or owner == self.owner or owner in self.teams

    def acts_as(self, owner: str | None) -> str:
        """Returns the owner of what this user submits: themself, or one of their teams."""
        if owner is not None and owner not in self.owners and self.role != "admin":
            raise UserError(f"jobs.owner={owner}: you submit as {' or '.join(self.owners)}")
        return owner or self.owner

    def jobs(self) -> list[ColumnElement[bool]]:
        """Returns the conditions of the jobs that this user may see."""
        return [] if self.sees_all else [JOBS.c.owner.in_(self.owners)]

    def name_of(self, owner: str) -> str:
        """Returns the name of an owner as this user may see it."""
        return owner if self.sees(owner) or owner in SYSTEM else OTHERS


class Access:
    """The tokens and quotas of a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.issued = self._ever()  # True if there was a token: once all are revoked, nobody is let in
        self.first: Callable[[], None] = lambda: None  # called when the first token is issued or entered

    def valid(self, *roles: Role) -> int:
        """Returns the number of valid tokens, of some roles or any."""
        query = select(func.count()).where(*self._valid(), Token.role.in_(roles or ROLES))
        return self.ledger.database.first(query) or 0

    def _valid(self) -> list[ColumnElement[bool]]:
        """Returns the conditions of tokens that let somebody in now."""
        return [Token.revoked.is_(None), or_(Token.expires.is_(None), Token.expires > self.ledger.now())]

    def _ever(self) -> bool:
        """Returns True if there was a token, even if it has ended."""
        with self.ledger.database.read() as session:
            return session.scalar(ANY_TOKEN) is not None

    def _count(self) -> None:
        """Records that there is a token."""
        before, self.issued = self.issued, True
        if not before:
            self.first()

    def _check_role(self, role: str) -> None:
        if role not in ROLES:
            raise unknown("role", role, ROLES)
        if role != "admin" and not self.valid("admin"):
            raise UserError(f"role {role!r}: the first token must be an admin's, or nobody could issue another")

    def issue(self, name: str, owner: str, role: str, actor: str, ends: str | None = None) -> str:
        """Issues a token, which is shown only once; the ledger stores its hash. After the first every request needs
        one.

        Args:
            ends: an age from now such as 90d, or a date; None: it has no end.
        """
        check_name("token", name)
        check_name("owner", owner)
        self._check_role(role)
        now = self.ledger.now()
        expires = None if ends is None else moment_of("ends", ends, now, ahead=True)
        if expires is not None and expires <= now:
            raise UserError(f"ends={ends}: has passed; say an age from now such as 90d, or a date")
        if expires is not None and role == "admin" and not self._lasting_admin():
            raise UserError(f"ends={ends}: issue an admin's token without an end first, or nobody could issue another")
        token = f"dgm_{secrets.token_urlsafe(32)}"
        values = {"digest": digest_of(token), "name": name, "owner": owner, "role": role, "created": now}
        with self.ledger.noting(actor, "token", f"issued {name} ({role})", owner) as session:
            if session.scalars(select(Token).where(Token.name == name)).first() is not None:
                raise UserError(f"token {name!r}: there is one of that name; revoke it or choose another")
            session.add(Token(**values, expires=expires))
        self._count()
        return token

    def _lasting_admin(self) -> bool:
        query = select(Token.digest).where(Token.revoked.is_(None), Token.expires.is_(None), Token.role == "admin")
        with self.ledger.database.read() as session:
            return session.scalar(query.limit(1)) is not None

    def enter(self, name: str, role: str, token: str, actor: str) -> None:
        """Accepts `token`, made elsewhere, in place of the one that was entered under this name."""
        if len(token) < SHORTEST:
            raise UserError(f"token {name!r}: {len(token)} characters; at least {SHORTEST} are needed")
        self._check_role(role)
        with self.ledger.write() as session:
            # the same token may have been entered under another name, for example with another role
            same = or_(Token.name == name, Token.digest == digest_of(token))
            tokens = session.scalars(select(Token).where(same)).all()
            facts = [(token.name, token.role, token.digest, token.revoked) for token in tokens]
            if facts == [(name, role, digest_of(token), None)]:
                return
            for before in tokens:
                session.delete(before)
            session.flush()
            session.add(Token(digest=digest_of(token), name=name, owner=name, role=role, created=self.ledger.now()))
            self.ledger.note(session, actor, "token", f"entered {name} ({role})", name)
        self._count()

    def rotate(self, name: str, actor: str) -> str:
        """Replaces a valid token of this name; the old one and its sessions end at once."""
        if name.startswith(FROM_FILE):
            raise UserError(f"token {name!r}: it is that of a file; replace the file and start the service again")
        token = f"dgm_{secrets.token_urlsafe(32)}"
        with self.ledger.noting(actor, "token", f"rotated {name}") as session:
            _set_valid(session, name, digest=digest_of(token), created=self.ledger.now())
        return token

    def revoke(self, name: str, actor: str) -> None:
        """Ends a token, with its sessions."""
        with self.ledger.noting(actor, "token", f"revoked {name}") as session:
            valid = session.scalars(select(Token).where(*self._valid())).all()
            admins = [token.name for token in valid if token.role == "admin" and token.expires is None]
            if admins == [name] and len(valid) > 1:
                raise UserError(f"token {name!r}: it is the last of an admin; revoke the others first")
            _set_valid(session, name, revoked=self.ledger.now())

    def tokens(self, *owners: str) -> list[Token]:
        """Returns the rows of all tokens, or those of some owners; they do not reveal the tokens."""
        query = select(Token).order_by(Token.created)
        return self.ledger.database.all(query.where(Token.owner.in_(owners)) if owners else query)

    def person(self, token: str) -> Person | None:
        """Returns the user of a token; None if it is unknown or revoked.

        Raises TokenExpiredError: its end has passed.
        """
        return self.holder(digest_of(token))

    def holder(self, digest: str) -> Person | None:
        """Returns the user of the token with this hash, as `person`."""
        with self.ledger.database.read() as session:
            token = session.get(Token, digest)
        if token is not None:
            tell_person(token.owner, token.name)
        if token is None or token.revoked is not None or token.role not in ROLES:
            return None
        now = self.ledger.now()
        if token.expires is not None and token.expires <= now:
            ended = time.strftime("%Y-%m-%d %H:%M", time.localtime(token.expires))
            raise TokenExpiredError(f"the token {token.name!r} expired on {ended}; ask an administrator for another")
        if now - (token.used or 0.0) >= USED_EVERY:
            with contextlib.suppress(SQLAlchemyError), self.ledger.database.write() as session:  # tried again later
                session.execute(update(Token).where(Token.digest == digest).values(used=now))
        return Person(token.owner, token.role, digest)

    def admits(self, person: Person) -> bool:
        """Returns True if what let this user in still does: open streams ask it."""
        if person.until is not None:
            return self.ledger.now() < person.until
        if not person.proof:
            return not self.issued
        try:
            return self.holder(person.proof) == person
        except TokenExpiredError:
            return False

    def quotas(self) -> dict[str, Limits]:
        """Returns the limits of each owner that has a quota."""
        return {row.owner: Limits(row.cpus, row.gpus, row.jobs) for row in self.ledger.database.all(select(Quota))}

    def set_quota(
        self, owner: str, cpus: float | None, gpus: float | None, actor: str, jobs: int | None = None
    ) -> None:
        """Sets the quota of an owner."""
        check_name("owner", owner)
        for name, value in (("cpus", cpus), ("gpus", gpus), ("jobs", jobs)):
            if value is not None and not value >= 0:
                raise UserError(f"{name}={value}: must be at least 0, or null for no bound")
        with self.ledger.noting(actor, "quota", f"cpus={cpus} gpus={gpus} jobs={jobs}", owner) as session:
            session.merge(Quota(owner=owner, cpus=cpus, gpus=gpus, jobs=jobs))


def _set_valid(session: Session, name: str, **values: Any) -> None:
    """Sets columns of the valid token of this name; raises UserError if there is none."""
    result: Any = session.execute(update(Token).where(Token.name == name, Token.revoked.is_(None)).values(**values))
    if result.rowcount != 1:
        raise UserError(f"token {name!r}: there is none that is valid")


class Rights:
    """The rights of a ledger's jobs: those of the token that submitted them, as long as it is valid."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def lender(self, person: Person) -> str:
        """Returns the hash of the token that lends its rights to this user's jobs; empty if none is asked for."""
        return PROXY if person.until is not None else person.proof

    def is_admin(self, job: Job) -> bool:
        """Returns True if a job was submitted with an admin's rights and what lent them still gives them."""
        if not job.admin or job.token == PROXY:
            return job.admin
        with self.ledger.database.read() as session:
            if not job.token:  # submitted when everybody was an admin
                return session.scalar(ANY_TOKEN) is None
            token = session.get(Token, job.token)
        if token is None or token.revoked is not None or token.role != "admin":
            return False
        return token.expires is None or token.expires > self.ledger.now()
