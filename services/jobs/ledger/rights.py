"""The rights of a job: those of the token that submitted it, for as long as that token is valid.

An owner may have several tokens. A job of one that lets its holder submit must not read what another one, an admin's,
would let them read. A sign-in lasts for hours, so its jobs have the rights of what it was made with. A schedule ends
with its token: otherwise who has stolen one would submit jobs for ever.
"""

from sqlalchemy import ColumnElement, or_, select

from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.own_tokens import ISSUER, LOGIN, SESSION
from dragoman.services.jobs.ledger.tables import Job, Token


class Rights:
    """The rights of a ledger's jobs."""

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
            return session.scalar(select(Token.digest).limit(1)) is not None
