"""Who is asking: by a token of the ledger, or by one that the issuer has signed."""

from dragoman.services.jobs.ledger.access import Access, Person, TokenExpiredError
from dragoman.services.jobs.ledger.asked import tell_person
from dragoman.services.jobs.ledger.people import NotAdmittedError, People
from dragoman.services.jobs.service.issuer import Issuer, RejectedError


class Unauthorized(Exception):  # noqa: N818  # HTTP's word
    """No token, or one that lets nobody in; the message says why."""


class Door:
    """Lets people in."""

    def __init__(self, access: Access, issuer: Issuer | None = None) -> None:
        self.access, self.issuer = access, issuer
        self.people = People(access, issuer.config) if issuer is not None else None

    def bearer(self, token: str) -> Person:
        """Returns the user of a bearer token.

        Raises:
            Unauthorized: it lets nobody in.
            ServiceError: the issuer signed it perhaps, and does not answer.
        """
        try:
            found = self.access.person(token)
            if found is None and self.issuer is not None and self.people is not None and token.count(".") == 2:
                claims = self.issuer.verify(token)
                found = self.people.admit(claims, float(claims["exp"]))
                tell_person(found.owner)
        except (TokenExpiredError, RejectedError, NotAdmittedError) as problem:
            raise Unauthorized(str(problem)) from None
        if found is None:
            raise Unauthorized("a valid bearer token is needed")
        return found
