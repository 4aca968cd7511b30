"""The types of the REST interface for jobs; OpenAPI and the client are made of them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from dragoman.services.jobs.bodies import NAME, JobName, Moment, Owner, Strict, Tag, View
from dragoman.services.jobs.ledger.access import OTHERS, Person, Role
from dragoman.services.jobs.ledger.database import Change
from dragoman.services.jobs.ledger.ledger import Options as Columns
from dragoman.services.jobs.planning.refusals import LONGEST, MOST_WORDS
from dragoman.services.jobs.scheduling.room import Node
from dragoman.services.jobs.states import PRIORITIES, Priority
from dragoman.services.jobs.views import Job, JobHistory

Verb = Annotated[str, Field(max_length=32)]
Word = Annotated[str, Field(max_length=LONGEST)]
Words = Annotated[list[Word], Field(max_length=MOST_WORDS)]


class Problem(BaseModel):
    """The body of every refusal."""

    error: str


class Command(Strict):
    """A command and its overrides, and nothing else that could run."""

    verb: Verb
    overrides: Words = []


class PlanRequest(Command):
    """A command to be planned."""

    owner: Owner | None = None  # null: who asks; or a team of theirs


class Submission(PlanRequest):
    """A command with its place in the queue."""

    priority: Priority = "normal"
    tags: Annotated[list[Tag], Field(max_length=20)] = []
    retries: Annotated[int, Field(ge=0, le=100)] = 0
    max_hours: Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)] | None = None
    after: Annotated[list[JobName], Field(max_length=100)] = []
    key: Annotated[str, Field(max_length=64, pattern=NAME)] | None = None  # the same key gives the same job

    def columns(self) -> Columns:
        """Returns how it is queued, as the ledger has it."""
        return {
            "priority": PRIORITIES[self.priority],
            "tags": self.tags,
            "retries": self.retries,
            "max_seconds": self.max_hours * 3600 if self.max_hours else None,
        }


class PriorityRequest(Strict):
    """A new priority."""

    priority: Priority


class AfterRequest(Strict):
    """The jobs that a job comes after."""

    after: Annotated[list[JobName], Field(max_length=100)]


class JobPage(BaseModel):
    """Jobs in the wanted order, and the cursor of the next page; null at the end."""

    jobs: list[Job]
    next: int | None
    counts: dict[str, int]
    newest: int  # the number of the last change, to follow from


class AttemptView(View):
    """One start of a job."""

    number: int
    workers: int
    decided: float
    started: float | None
    ended: float | None
    outcome: str | None
    cause: str | None
    code: int | None
    message: str


class ChangeView(View):
    """A row of the record of changes."""

    id: int
    at: float
    actor: str
    action: str
    job: str | None
    owner: str | None
    before: str | None
    after: str | None
    attempt: int | None
    reason: str

    @classmethod
    def shown(cls, change: Change, person: Person) -> "ChangeView":
        """Returns the row as the person may read it: without the names of owners that they may not see."""
        view = cls.model_validate(change)
        if person.name_of(view.actor) != view.actor:
            view.reason = view.reason.replace(f" by {view.actor}", f" by {OTHERS}")
            view.actor = OTHERS
        if view.owner is not None:
            view.owner = person.name_of(view.owner)
        return view


class JobDetail(JobHistory):
    """A job with its whole history."""

    attempts: list[AttemptView]
    changes: list[ChangeView]


class CurvesView(BaseModel):
    """A training's curves, of at most 1,000 points (step, value), and what its end released."""

    run: str
    curves: dict[str, list[tuple[int, float]]]
    released: dict[str, Any]


class StatusView(BaseModel):
    """The service's health. `trouble` says what is not well: part of the service -> what is wrong with it.

    `children` are the processes beside the service: `starting`, `ready`, `resting`, `stopped` or `trouble`.
    """

    status: Literal["ok", "degraded"]
    trouble: dict[str, str]
    version: str
    counts: dict[str, int]
    nodes: list[Node]
    pass_seconds: float
    keys: bool
    children: dict[str, str] = {}


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
