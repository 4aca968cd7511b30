"""The rights of a job: those of the token that submitted it, for as long as that token is valid.

An owner may have several tokens. A job of one that lets its holder submit must not read what another one, an admin's,
would let them read. A sign-in lasts for hours, so its jobs have the rights of what it was made with.
"""

from sqlalchemy import select

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
        if job.token == ISSUER:  # the proxy said so; the ledger does not know for how long
            return True
        with self.ledger.database.read() as session:
            if not job.token:  # submitted when everybody was an admin
                return session.scalar(select(Token.digest).limit(1)) is None
            token = session.get(Token, job.token)
        if token is None or token.revoked is not None:
            return False
        return token.role == "admin" and (token.expires is None or self.ledger.now() < token.expires)
