"""People of an OpenID Connect issuer: their claims become an owner with a role.

An owner's name belongs to the first account that signs in with it. A name that tokens or jobs have is given to nobody
before an administrator allows it: an issuer may let people choose their names.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import exists, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from dragoman.model.errors import UserError
from dragoman.model.names import check_name
from dragoman.services.jobs.ledger.access import ISSUED, OTHERS, ROLES, SYSTEM, Access, Person, Role
from dragoman.services.jobs.ledger.own_tokens import ISSUER
from dragoman.services.jobs.ledger.projects import enter_by_groups, memberships
from dragoman.services.jobs.ledger.tables import IssuerAccount, Job, Token
from dragoman.services.jobs.oidc_settings import ANYBODY, OidcConfig

SEEN_EVERY = 60.0  # seconds between two records of an account


class NotAdmittedError(Exception):
    """The issuer knows the person, and the service does not let them in; the message says why."""


class People:
    """The accounts of one issuer in a ledger."""

    def __init__(self, access: Access, config: OidcConfig) -> None:
        self.access, self.ledger, self.config = access, access.ledger, config

    def admit(self, claims: Mapping[str, Any], until: float | None = None) -> Person:
        """Returns the user of verified claims; `until` is the end of the token that they came in.

        Raises:
            NotAdmittedError: no name, another's name, or no group that is let in.
        """
        groups = self._groups(claims)
        owner, role, subject = self._owner(claims), self._role(groups), f"{self.config.issuer} {claims['sub']}"
        changed: list[str] = []
        now = self.ledger.now()
        with self.ledger.database.read() as session:
            found = session.get(IssuerAccount, owner)
        if found is None or (found.subject, found.role) != (subject, role) or now - (found.seen or 0) >= SEEN_EVERY:
            try:
                with self.ledger.database.write() as session:
                    self._enter(session, owner, subject, role, now)
                    changed = enter_by_groups(session, owner, groups)
            except IntegrityError:  # another account came at the same moment
                raise NotAdmittedError(f"the name {owner!r} was taken just now; sign in again") from None
        if found is not None and found.role not in ("", role):
            self.ledger.note(owner, "role", f"{found.role} became {role} by the issuer's groups", owner)
        for one in changed:
            self.ledger.note(owner, "project", one, owner)
        with self.ledger.database.read() as session:
            return Person(owner, role, "", until, *memberships(session, owner))

    def all(self) -> list[IssuerAccount]:
        """Returns the accounts, by owner."""
        with self.ledger.database.read() as session:
            return list(session.scalars(select(IssuerAccount).order_by(IssuerAccount.owner)))

    def allow(self, owner: str, actor: str) -> None:
        """Lets the next account that signs in with this name have it. Raises UserError for an invalid name."""
        check_name("owner", owner)
        with self.ledger.database.write() as session:
            if session.get(IssuerAccount, owner) is not None:
                raise UserError(
                    f"owner {owner!r}: an account has that name; free it with: dragoman people forget {owner}"
                )
            session.add(IssuerAccount(owner=owner, subject="", role=""))
        self.ledger.note(actor, "role", f"allowed the issuer's {owner}", owner)

    def forget(self, owner: str, actor: str) -> None:
        """Frees a name: its sign-ins and the tokens made with them end at once.

        Raises:
            UserError: no account has it.
        """
        with self.ledger.database.write() as session:
            found = session.get(IssuerAccount, owner)
            if found is None:
                raise UserError(f"owner {owner!r}: no account has that name")
            session.delete(found)
            _end_tokens(session, owner, ROLES, self.ledger.now())
        self.ledger.note(actor, "role", f"forgot the issuer's {owner}", owner)

    def _enter(self, session: Session, owner: str, subject: str, role: Role, now: float) -> None:
        found = session.get(IssuerAccount, owner)
        if found is None:
            issued = exists().where(Token.owner == owner, Token.kind == ISSUED)
            if session.scalar(select(issued | exists().where(Job.owner == owner))):
                raise NotAdmittedError(
                    f"the name {owner!r} is in use here; an administrator gives it: dragoman people allow {owner}"
                )
            session.add(IssuerAccount(owner=owner, subject=subject, role=role, seen=now))
            return
        if found.subject not in ("", subject):
            raise NotAdmittedError(
                f"the name {owner!r} is another account's; an administrator frees it: dragoman people forget {owner}"
            )
        found.subject, found.role, found.seen = subject, role, now
        _end_tokens(session, owner, ROLES[ROLES.index(role) + 1 :], now)

    def _owner(self, claims: Mapping[str, Any]) -> str:
        """Returns the owner's name. Raises NotAdmittedError if the claim has none that is fit."""
        key, domain = self.config.owner, self.config.domain
        name = claims.get(key)
        if key == "email" and claims.get("email_verified") is not True:
            raise NotAdmittedError("the issuer has not verified your address")
        if isinstance(name, str) and domain is not None:
            if not name.endswith(f"@{domain}"):
                raise NotAdmittedError(f"the claim {key} is no name of {domain}")
            name = name.removesuffix(f"@{domain}")
        try:
            name = check_name(f"the claim {key}", name)
        except UserError as problem:
            raise NotAdmittedError(str(problem)) from None
        if name in SYSTEM or name == OTHERS:
            raise NotAdmittedError(f"the name {name!r} is the service's own")
        return name

    def _groups(self, claims: Mapping[str, Any]) -> set[str]:
        """Returns the person's groups."""
        found: Any = claims
        for key in self.config.groups.split("."):
            found = found.get(key) if isinstance(found, Mapping) else None
        return {found} if isinstance(found, str) else set(filter(_is_text, found)) if isinstance(found, list) else set()

    def _role(self, groups: set[str]) -> Role:
        """Returns the greatest role of the person's groups. Raises NotAdmittedError if none has one."""
        for role in reversed(ROLES):
            wanted = self.config.roles.get(role, [])
            if ANYBODY in wanted or groups & set(wanted):
                return role
        raise NotAdmittedError(
            f"none of your {len(groups)} groups is let in; an administrator adds one to service.oidc.roles"
        )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _end_tokens(session: Session, owner: str, roles: tuple[str, ...], now: float) -> None:
    """Revokes the sign-ins of an owner, and the tokens made with them, that have one of these roles."""
    wanted = Token.owner == owner, Token.made_with == ISSUER, Token.role.in_(roles), Token.revoked.is_(None)
    session.execute(update(Token).where(*wanted).values(revoked=now))
