"""Tokens that people make for themselves: with an end, and with no more rights than their maker has.

They stand in the table of the administrators' tokens, named OWNER/NAME: no administrator's token has such a name. They
end with the token that they were made with.
"""

import secrets

from sqlalchemy import ColumnElement, delete, func, or_, select, update

from dragoman.model.errors import UserError, unknown
from dragoman.model.names import check_name
from dragoman.services.jobs.ledger.access import ISSUED, Access, Person, Role, digest_of
from dragoman.services.jobs.ledger.filters import moment_of
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.statements import ANY_TOKEN
from dragoman.services.jobs.ledger.tables import Job, Token

OWN = "own"
SESSION, LOGIN = "session", "login"  # of a browser that signed in, of `dragoman login`
MAKERS = (ISSUED, SESSION)  # kinds that make others: a stolen token of another kind would have no end
ISSUER = "issuer"  # in the place of a maker's digest: the proxy, or before it an issuer, let its owner in
LENDABLE: tuple[Role, ...] = ("viewer", "submitter", "admin")  # `metrics` sees every owner, a viewer does not
LONGEST_NAME = 160  # of the column, with the owner's
LONGEST = 366 * 86_400.0  # seconds until the end
MOST = 100  # valid tokens of one owner


class OwnTokens:
    """The tokens that people made for themselves."""

    def __init__(self, access: Access) -> None:
        self.access, self.ledger = access, access.ledger

    def make(self, person: Person, name: str, role: str | None, ends: str) -> str:
        """Makes a token, which is shown only once; the ledger stores its hash.

        Args:
            role: no more than the maker's; None: the same.
            ends: an age such as 30d, or a date.
        """
        check_name("token", name)
        now = self.ledger.now()
        expires = moment_of("ends", ends, now, ahead=True)
        if not now < expires <= now + LONGEST:
            raise UserError(f"ends={ends}: choose an end within the next 366 days")
        role = role or person.role
        allowed = [action for action in LENDABLE if person.may(action)]
        if role not in allowed:
            raise unknown("role", role, allowed)
        full = full_name(person.owner, name)
        made_with = self.check_maker(person)
        token = f"dgm_{secrets.token_urlsafe(32)}"
        ended = or_(Token.revoked.is_not(None), Token.expires <= now)
        with self.ledger.noting(person.owner, "token", f"made {name} ({role})", person.owner) as session:
            session.execute(delete(Token).where(Token.name == full, ended))
            if session.scalars(select(Token).where(Token.name == full)).first() is not None:
                raise UserError(f"token {name!r}: you have one of that name; revoke it or choose another")
            mine = Token.owner == person.owner, Token.kind == OWN, ~ended
            if (session.scalar(select(func.count()).where(*mine)) or 0) >= MOST:
                raise UserError(f"token {name!r}: you have {MOST}; revoke one first")
            values = {"digest": digest_of(token), "name": full, "owner": person.owner, "role": role, "created": now}
            session.add(Token(**values, kind=OWN, made_with=made_with, expires=expires))
        return token

    def lend(self, person: Person, kind: str, seconds: float) -> str:
        """Returns a token for a sign-in, with all rights of `person`. Raises UserError if they may make none."""
        now, made_with = self.ledger.now(), self.check_maker(person)
        token = f"dgm_{secrets.token_urlsafe(32)}"
        values = {"digest": digest_of(token), "owner": person.owner, "role": person.role, "created": now, "kind": kind}
        with self.ledger.noting(person.owner, "token", f"signed in ({kind})", person.owner) as session:
            session.execute(delete(Token).where(Token.kind.in_((SESSION, LOGIN)), Token.expires <= now))
            name = f"{person.owner[:100]}/{kind}-{secrets.token_hex(6)}"
            session.add(Token(**values, name=name, made_with=made_with, expires=now + seconds))
        return token

    def of(self, owner: str) -> list[Token]:
        """Returns an owner's tokens that are valid or expired, newest first; not those of administrators."""
        query = select(Token).where(Token.owner == owner, Token.kind != ISSUED, Token.revoked.is_(None))
        return self.ledger.database.all(query.order_by(Token.created.desc(), Token.name))

    def revoke(self, owner: str, name: str, actor: str) -> None:
        """Ends a token and its sessions at once. Raises UserError if the owner has no such token."""
        conditions = (
            Token.owner == owner,
            Token.name.endswith(f"/{name}", autoescape=True),
            Token.kind != ISSUED,
            Token.revoked.is_(None),
        )
        with self.ledger.noting(actor, "token", f"revoked {name}", owner) as session:
            if session.execute(update(Token).where(*conditions).values(revoked=self.ledger.now())).rowcount != 1:  # type: ignore[attr-defined]
                raise UserError(f"token {name!r}: there is none that is valid")

    def check_maker(self, person: Person, first: bool = False) -> str:
        """Returns what a new token is bound to: the token that let `person` in.

        Args:
            first: it may be the first of all, which nothing is bound to.
        """
        with self.ledger.database.read() as session:
            proof = session.get(Token, person.proof) if person.proof else None
        if person.until is not None:
            return ISSUER
        if proof is None:
            if first:
                return ""
            raise UserError(
                "no token is asked for here. The first is an administrator's: "
                "dragoman token issue NAME owner=OWNER role=admin"
            )
        if proof.kind not in MAKERS:
            raise UserError(
                f"the token {proof.name.rpartition('/')[2]!r} makes no other: its owner made it. Use the page /tokens, "
                "or the token that an administrator gave you"
            )
        return proof.made_with or proof.digest


def full_name(owner: str, name: str) -> str:
    """Returns a token's name in the table. Raises UserError if it is too long for it."""
    full = f"{owner}/{name}"
    if len(full) > LONGEST_NAME:
        raise UserError(f"token {name!r}: the name is too long; {LONGEST_NAME - len(owner) - 1} characters are left")
    return full


class Rights:
    """The rights of a ledger's jobs and schedules: those of the token that submitted them, as long as it is valid."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def lender(self, person: Person) -> str:
        """Returns the hash of the token that lends its rights to this user's jobs; empty if none is asked for."""
        if person.until is not None:
            return ISSUER
        with self.ledger.database.read() as session:
            token = session.get(Token, person.proof) if person.proof else None
        if token is None:
            return ""
        return token.made_with if token.kind in (SESSION, LOGIN) and token.made_with else token.digest

    def is_admin(self, job: Job) -> bool:
        """Returns True if a job was submitted with an admin's rights and what lent them still gives them."""
        if not job.admin:
            return False
        if not job.token:  # submitted when everybody was an admin
            return not self._ever()
        return job.token == ISSUER or self._holds(Token.digest == job.token, Token.role == "admin")

    def lasts(self, token: str, owner: str) -> bool:
        """Returns True if `token` may still lend its rights to a schedule of this owner.

        One that was made without a token goes on as long as its owner has any, or nobody is asked for one.
        """
        if token == ISSUER:  # the proxy said so; the ledger does not know for how long
            return True
        return self._holds(Token.digest == token if token else Token.owner == owner) or not (token or self._ever())

    def _holds(self, *conditions: ColumnElement[bool]) -> bool:
        """Returns True if a token of these conditions is valid."""
        ends = or_(Token.expires.is_(None), Token.expires > self.ledger.now())
        query = select(Token.digest).where(Token.revoked.is_(None), ends, *conditions).limit(1)
        with self.ledger.database.read() as session:
            return session.scalar(query) is not None

    def _ever(self) -> bool:
        """Returns True if there was a token, even if it has ended."""
        with self.ledger.database.read() as session:
            return session.scalar(ANY_TOKEN) is not None
