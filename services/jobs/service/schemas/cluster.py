"""The REST interface on the cluster, the endpoint, models, bills, and what is deleted in time."""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from dragoman.services.jobs.keep_settings import KeepConfig
from dragoman.services.jobs.service.retention import Due
from dragoman.services.jobs.service.schemas.words import ProjectOrNone, Strict, View


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


class NodeView(View):
    """A machine of the cluster, and the resources that jobs may use on it."""

    name: str
    cpus: float
    gpus: float


class StatusView(BaseModel):
    """The service's health. `trouble` is the failure of the last look at the cluster.

    `children` are the processes beside the service: `starting`, `ready` or `trouble`, and where no token is needed the
    last line of its log.
    """

    status: Literal["ok", "degraded"]
    trouble: str | None
    version: str
    counts: dict[str, int]
    nodes: list[NodeView]
    pass_seconds: float
    keys: bool
    children: dict[str, str] = {}


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
    def of(cls, one: Due) -> "Expired":
        own = {name: getattr(one.job, name) for name in ("id", "owner", "state", "run", "changed")}
        return cls(**own, bytes=one.bytes, folders=len(one.folders))


class RetentionView(BaseModel):
    """The rules, the oldest jobs that they delete, the number of all, and why others stay: reason -> number."""

    rules: KeepConfig
    jobs: list[Expired]
    total: int
    stay: dict[str, int]
