"""The types of the REST interface, by resource; OpenAPI and the client are made from them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from sqlalchemy import ColumnElement

from dragoman.services.jobs.ledger.access import OTHERS, Person, Role
from dragoman.services.jobs.ledger.audit import STATUS, AuditFilter
from dragoman.services.jobs.ledger.filters import NEWEST_FIRST, SORT, Filter, moment_of
from dragoman.services.jobs.ledger.ledger import Options as Columns
from dragoman.services.jobs.ledger.projects import Rank
from dragoman.services.jobs.ledger.tables import Change, Notice, SavedPreset, Schedule
from dragoman.services.jobs.options import MOST_RUNS
from dragoman.services.jobs.planning.refusals import LONGEST, MOST_WORDS
from dragoman.services.jobs.scheduling.room import Node
from dragoman.services.jobs.service.retention import DueJob
from dragoman.services.jobs.service.targets import shown
from dragoman.services.jobs.service.usage import Use
from dragoman.services.jobs.settings import KeepConfig
from dragoman.services.jobs.states import PRIORITIES, Priority, State
from dragoman.services.jobs.views import Job, JobHistory

NAME = r"^[\w.+-]+$"
JobId = Annotated[str, Field(max_length=40, pattern=NAME)]
Owner = Annotated[str, Field(min_length=1, max_length=160, pattern=NAME)]
Tag = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9_.+-]+$")]
SavedName = Annotated[str, Field(min_length=1, max_length=64, pattern=NAME)]
ProjectOrNone = Annotated[str, Field(max_length=64, pattern=r"^[\w.+-]*$")]  # empty: none
Moment = Annotated[str, Field(max_length=40)]  # an age such as 2d, or a date


def is_saved_name(text: str) -> bool:
    """Returns True if a kept item may have this name."""
    return len(text) <= 64 and re.match(NAME, text) is not None


class Strict(BaseModel):
    """A body that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid")


class View(BaseModel):
    """An answer, which is made from an object with the same attributes."""

    model_config = ConfigDict(from_attributes=True)


class Nothing(Strict):
    """An empty object."""


class Problem(BaseModel):
    """The body of every refusal."""

    error: str


class Command(Strict):
    """A command and its overrides, and nothing else that could run."""

    verb: Annotated[str, Field(max_length=32)]
    overrides: Annotated[list[Annotated[str, Field(max_length=LONGEST)]], Field(max_length=MOST_WORDS)] = []


class PlanRequest(Command):
    """A command to be planned."""

    project: ProjectOrNone | None = None  # null: the only project of who asks, if they have one; empty: none
    by: Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)] | None = None  # seconds since 1970


class Options(Strict):
    """The options of jobs that are submitted once or by a schedule."""

    priority: Priority = "normal"
    project: ProjectOrNone | None = None
    tags: Annotated[list[Tag], Field(max_length=20)] = []
    notify: Annotated[list[Annotated[str, Field(min_length=1, max_length=500)]], Field(max_length=10)] = []
    retries: Annotated[int, Field(ge=0, le=100)] = 0
    max_hours: Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)] | None = None

    def columns(self) -> Columns:
        """Returns them as the ledger has them."""
        return {
            "priority": PRIORITIES[self.priority],
            "project": self.project or "",
            "tags": self.tags,
            "notify": self.notify,
            "retries": self.retries,
            "max_seconds": self.max_hours * 3600 if self.max_hours else None,
        }


class Submission(PlanRequest, Options):
    """A command with its place in the queue."""

    after: Annotated[list[JobId], Field(max_length=100)] = []
    key: Annotated[str, Field(max_length=64, pattern=NAME)] | None = None  # the same key gives the same job


class ArrayRequest(Submission):
    """A command that is submitted several times, each with some overrides more."""

    runs: Annotated[
        list[Annotated[list[Annotated[str, Field(max_length=LONGEST)]], Field(min_length=1, max_length=20)]],
        Field(min_length=1, max_length=MOST_RUNS),
    ]


class PresetRequest(Strict):
    """A command to be kept: its overrides, and options such as jobs.priority=high."""

    verb: Annotated[str, Field(max_length=32)]
    words: Annotated[list[Annotated[str, Field(max_length=LONGEST)]], Field(max_length=MOST_WORDS)] = []


class ScheduleRequest(Command, Options):
    """A command that is submitted at the times of a cron expression, in UTC; @time in its words is that time."""

    every: Annotated[str, Field(max_length=100)]


class PriorityRequest(Strict):
    """A new priority."""

    priority: Priority


class AfterRequest(Strict):
    """The jobs that a job comes after."""

    after: Annotated[list[JobId], Field(max_length=100)]


class JobQuery(Strict):
    """The wanted jobs and their order; `name` is of the run, with * for any characters."""

    state: Annotated[list[State], Field(max_length=20)] = []
    owner: Owner | None = None
    project: SavedName | None = None
    verb: Annotated[str, Field(max_length=32)] | None = None
    name: Annotated[str, Field(max_length=200)] | None = None
    model: Owner | None = None
    tag: Annotated[list[Tag], Field(max_length=20)] = []
    since: Moment | None = None  # submitted then or later
    until: Moment | None = None
    sort: Annotated[str, Field(pattern=SORT)] = NEWEST_FIRST

    def filter(self, owner: str | None, now: float, seen: Sequence[ColumnElement[bool]] = ()) -> Filter:
        """Returns it with the jobs that the person may see. Raises UserError for an impossible moment."""
        times = {key: moment_of(key, text, now) for key in ("since", "until") if (text := getattr(self, key))}
        return Filter(**{**self.model_dump(include=KEYS), "owner": owner, "seen": seen, **times})


KEYS = {"state", "project", "verb", "name", "model", "tag", "sort"}  # the same in a query and a filter


class ListQuery(JobQuery):
    """A page of jobs."""

    cursor: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50


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
    lost_seconds: float
    lost_tokens: int
    startup: float  # seconds until a training's first step; the whole attempt if it had none


class ChangeView(View):
    """A row of the audit trail."""

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


class NoticeView(BaseModel):
    """A message to a target about a job; the target is shown without its path."""

    event: str
    target: str
    created: float
    tries: int
    sent: float | None
    due: float | None  # the next try; null: delivered, or given up
    error: str

    @classmethod
    def of(cls, notice: Notice) -> "NoticeView":
        values = {name: getattr(notice, name) for name in cls.model_fields if name != "target"}
        return cls(target=shown(notice.target), **values)


class JobDetail(JobHistory):
    """A job with its whole history."""

    notices: list[NoticeView]
    attempts: list[AttemptView]
    changes: list[ChangeView]


class CurvesView(BaseModel):
    """A training's curves, of at most 1,000 points (step, value), and what its end released."""

    run: str
    curves: dict[str, list[tuple[int, float]]]
    released: dict[str, Any]


class MachineUse(View):
    """The use of a job on one machine: `cpu` in cores, `memory` and `gpu_memory` in bytes, `gpu` in percent, `read` and
    `written` in bytes a second. `machine_...` is the same of the whole machine, with its CPU in percent, the free bytes
    of the home's disk, and the network, of which Linux keeps no count by process."""

    machine: str
    at: float  # of the last sample
    last: dict[str, float]
    total: dict[str, float]  # cpu: seconds of processors; read, written: bytes
    curves: dict[str, list[tuple[float, float]]]  # at most 300 points: seconds since 1970, value
    idle: int  # GPUs of the job that did not work then,
    idle_since: float | None  # and when the first of them stopped


class UsageView(BaseModel):
    """The use of an attempt, by machine."""

    attempt: int
    machines: list[MachineUse]

    @classmethod
    def of(cls, attempt: int, uses: Mapping[str, Use]) -> "UsageView":
        shared = MachineUse.model_fields.keys() - {"machine", "last"}
        machines = [
            MachineUse(machine=name, last=use.last, **{key: getattr(use, key) for key in shared})
            for name, use in uses.items()
        ]
        return cls(attempt=attempt, machines=machines)


class ScheduleView(View):
    """A schedule: its command, the next time, and what the last one brought."""

    id: int
    owner: str
    project: str
    every: str
    verb: str
    words: list[str]
    priority: Priority
    tags: list[str]
    created: float
    due: float | None  # null: paused
    job: str | None
    trouble: str

    @classmethod
    def of(cls, schedule: Schedule) -> "ScheduleView":
        names = cls.model_fields.keys() - {"priority", "tags", "project"}
        options = {name: schedule.options[name] for name in ("priority", "tags")}
        options["project"] = schedule.options.get("project") or ""  # rows from before have none
        return cls(**{name: getattr(schedule, name) for name in names}, **options)


class PresetView(BaseModel):
    """A kept command."""

    name: str
    verb: str
    words: list[str]
    changed: float

    @classmethod
    def of(cls, preset: SavedPreset) -> "PresetView":
        return cls(name=preset.name, changed=preset.changed, **preset.content)


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


class StatusView(BaseModel):
    """The service's health. `trouble` is the failure of the last look at the cluster.

    `children` are the processes beside the service: `starting`, `ready`, `resting` or `trouble`, and where no token is
    needed the last line of its log.
    """

    status: Literal["ok", "degraded"]
    trouble: str | None
    version: str
    counts: dict[str, int]
    nodes: list[Node]
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
    def of(cls, due: DueJob) -> "Expired":
        own = {name: getattr(due.job, name) for name in ("id", "owner", "state", "run", "changed")}
        return cls(**own, bytes=due.bytes, folders=len(due.folders))


class RetentionView(BaseModel):
    """The rules, the oldest jobs that they delete, the number of all, and why others stay: reason -> number."""

    rules: KeepConfig
    jobs: list[Expired]
    total: int
    stay: dict[str, int]
