"""The types of the REST interface for people and what they share: tokens, projects, quotas, models, accounts."""

from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, Field, field_validator, model_validator

from dragoman.services.jobs.bodies import Moment, Owner, ProjectOrNone, SavedName, Strict, View
from dragoman.services.jobs.ledger.access import Role
from dragoman.services.jobs.ledger.projects import Rank
from dragoman.services.jobs.service.retention import DueJob
from dragoman.services.jobs.settings import KeepConfig


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

    name: SavedName
    ends: Moment = "90d"
    role: Role | None = None


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


class _TokenFacts(View):
    name: str
    role: str
    kind: str  # issued: by an administrator
    created: float
    expires: float | None  # null: it has no end
    used: float | None  # the last request, to the minute


class TokenView(_TokenFacts):
    """A token's name, owner and role; not the token. One that its owner made is called OWNER/NAME."""

    owner: str
    revoked: float | None


class OwnTokenView(_TokenFacts):
    """One of the asker's own tokens; not the token."""

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


class ModelRequest(Strict):
    """The new owner of a registered model: a person, or a project."""

    owner: Annotated[str, Field(max_length=160, pattern=r"^[\w.+-]*$")] = ""
    project: ProjectOrNone = ""

    @model_validator(mode="after")
    def one_owner(self) -> "ModelRequest":
        """Returns it if it names one of both."""
        if bool(self.owner) == bool(self.project):
            raise ValueError("give owner or project")
        return self


class PlaceRequest(ModelRequest):
    """The new owner of shards or of a run."""

    place: Annotated[str, Field(max_length=400, pattern=r"^(shards|runs)/[^/].*$")]  # below the service's home


class ModelView(View):
    """A registered model and its owner."""

    name: str
    owner: str
    since: float


class BillRow(BaseModel):
    """The losses by one cause of one owner's job."""

    owner: str
    job: str
    cause: str
    attempts: int
    seconds: float  # of steps that were trained and not saved
    tokens: int
    startup: float  # seconds of these attempts until their first steps, which the next ones spend again
    away: float  # seconds from the end of these attempts until the next ones ran


class RetentionQuery(Strict):
    """Rules in place of those of `service.keep`."""

    succeeded: Annotated[float, Field(ge=0, le=1e6)] | None = None  # days
    failed: Annotated[float, Field(ge=0, le=1e6)] | None = None
    stopped: Annotated[float, Field(ge=0, le=1e6)] | None = None
    newest: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    most: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    runs: bool | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100

    def rules(self, config: KeepConfig) -> KeepConfig:
        """Returns the service's rules with those that are named here."""
        return replace(config, **self.model_dump(exclude={"limit"}, exclude_none=True))


class Expired(BaseModel):
    """A job that would be deleted, with the folders that go with it."""

    id: str
    owner: str
    state: str
    run: str
    changed: float
    bytes: int
    folders: int

    @classmethod
    def of(cls, due: DueJob) -> "Expired":
        own = {name: getattr(due.job, name) for name in ("id", "owner", "state", "run", "changed")}
        return cls(**own, bytes=due.bytes, folders=len(due.folders))


class RetentionView(BaseModel):
    """The rules, the oldest jobs that they delete, the number of all, and why others stay: reason -> number."""

    rules: KeepConfig
    jobs: list[Expired]
    total: int
    stay: dict[str, int]


class Nothing(Strict):
    """An empty object."""
