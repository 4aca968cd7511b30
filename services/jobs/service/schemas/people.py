"""Owners as the REST interface has them: quotas, projects, tokens, logins, and the audit of what they asked for."""

from typing import Annotated

from pydantic import BaseModel, Field, field_validator

from dragoman.services.jobs.ledger.access import Role
from dragoman.services.jobs.ledger.audit import STATUS, AuditFilter
from dragoman.services.jobs.ledger.filters import moment_of
from dragoman.services.jobs.ledger.projects import Rank
from dragoman.services.jobs.service.schemas.words import NAME, Moment, Owner, SavedName, Strict, View


class QuotaRequest(Strict):
    """A new quota; null: unlimited."""

    cpus: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None
    gpus: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None
    jobs: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None  # that run at once


class ProjectRequest(Strict):
    """A new project; people of the proxy's `group` become members when they come."""

    name: SavedName
    group: Annotated[str, Field(max_length=300)] = ""


class MemberRequest(Strict):
    """The role of a member."""

    role: Rank = "member"


class TokenRequest(Strict):
    """The owner and the role of a new token."""

    name: Owner
    owner: Owner
    role: Role


class OwnTokenRequest(Strict):
    """A token for oneself: its end is an age from now or a date; without a role it has its maker's."""

    name: Annotated[str, Field(min_length=1, max_length=64, pattern=NAME)]
    ends: Moment = "90d"
    role: Role | None = None


class AuditQuery(Strict):
    """The wanted rows of the audit; `what` is a method, or a part of the address or of the detail."""

    person: Owner | None = None
    what: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    status: Annotated[str, Field(pattern=STATUS)] | None = None  # 403, or 4xx
    since: Moment | None = None
    until: Moment | None = None
    cursor: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50

    def filter(self, person: str | None, now: float) -> AuditFilter:
        """Returns it with the person whose rows may be seen. Raises UserError for an impossible moment."""
        times = {key: moment_of(key, text, now) for key in ("since", "until") if (text := getattr(self, key))}
        return AuditFilter(person, self.what, self.status, **times)


class AuditView(View):
    """A request that changed something, or was refused."""

    id: int
    at: float
    person: str  # empty: unknown
    token: str  # the name of their token; empty: none
    address: str
    method: str
    resource: str
    status: int  # 499: the client left before the answer
    detail: str  # what changed: jobs, models, tokens; or why it was refused


class AuditPage(BaseModel):
    """Rows, newest first, and the cursor of the next page; null at the end."""

    rows: list[AuditView]
    next: int | None


class QuotaView(BaseModel):
    """The quota of the jobs of an owner, or of a project (`project NAME`), together."""

    owner: str
    cpus: float | None
    gpus: float | None
    jobs: int | None


class MemberView(View):
    """A member of a project."""

    owner: str
    role: str = Field(validation_alias="rank")
    by_group: bool  # True if a group made them one


class ProjectView(BaseModel):
    """A project with its members, its quota and what its jobs hold now."""

    name: str
    group: str
    created: float
    members: list[MemberView]
    cpus: float | None
    gpus: float | None
    jobs: int | None
    held_cpus: float
    held_gpus: float
    running: int
    waiting: int
    models: list[str]


class TokenView(View):
    """A token's name, owner and role; not the token. One that its owner made is called OWNER/NAME."""

    name: str
    owner: str
    role: str
    kind: str  # issued: by an administrator
    created: float
    expires: float | None  # null: it has no end
    used: float | None  # the last request, to the minute
    revoked: float | None


class OwnTokenView(View):
    """One of the asker's own tokens; not the token."""

    name: str
    role: str
    kind: str
    created: float
    expires: float | None
    used: float | None

    @field_validator("name")
    @classmethod
    def own_name(cls, name: str) -> str:
        """Returns the name without the owner's."""
        return name.rpartition("/")[2]


class MeView(View):
    """The user of the request."""

    owner: str
    role: Role
    token: str | None = None  # the name of their own token; null: it is an administrator's, or the proxy let them in


class LoginView(BaseModel):
    """A sign-in of a command line: `code` is typed on `page`, `secret` takes the token."""

    secret: str
    code: str
    page: str
    seconds: float  # that it waits
    pause: float  # between two questions


class LoginSecret(Strict):
    """The secret of a sign-in."""

    secret: Annotated[str, Field(min_length=1, max_length=64)]


class LoginToken(BaseModel):
    """The token of a sign-in; null: it still waits."""

    token: str | None


class IssuedToken(BaseModel):
    """A new token, which is shown only once."""

    token: str
