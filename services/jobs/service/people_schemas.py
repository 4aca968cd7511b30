"""The types of the REST interface for people: tokens and quotas."""

from typing import Annotated

from pydantic import BaseModel, Field

from dragoman.services.jobs.bodies import Moment, Owner, Strict, View
from dragoman.services.jobs.ledger.access import Role


class QuotaRequest(Strict):
    """A new quota; null: unlimited."""

    cpus: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None
    gpus: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None
    jobs: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None  # that run at once


class QuotaView(BaseModel):
    """The quota of the jobs of an owner together."""

    owner: str
    cpus: float | None
    gpus: float | None
    jobs: int | None


class TokenRequest(Strict):
    """A new token: its owner, a person or a team, its role, and its end, an age from now or a date; null: none."""

    name: Owner
    owner: Owner
    role: Role
    ends: Moment | None = None


class TokenView(View):
    """A token's name, owner and role; not the token."""

    name: str
    owner: str
    role: str
    created: float
    expires: float | None  # null: it has no end
    used: float | None  # the last request, to the minute
    revoked: float | None


class IssuedToken(BaseModel):
    """A new token, which is shown only once."""

    token: str


class MeView(View):
    """The user of the request."""

    owner: str
    role: Role
    teams: list[str]  # as whom they may submit too
