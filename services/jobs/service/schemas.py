"""The types of the REST interface for jobs, presets and schedules; OpenAPI and the client are made of them."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AliasPath, BaseModel, BeforeValidator, Field

from dragoman.services.jobs.bodies import NAME, JobId, ProjectOrNone, Strict, Tag, View
from dragoman.services.jobs.ledger.access import OTHERS, Person
from dragoman.services.jobs.ledger.ledger import Options as Columns
from dragoman.services.jobs.ledger.tables import Change
from dragoman.services.jobs.options import MOST_RUNS
from dragoman.services.jobs.planning.refusals import LONGEST, MOST_WORDS
from dragoman.services.jobs.scheduling.room import Node
from dragoman.services.jobs.service.targets import shown
from dragoman.services.jobs.service.usage import Use
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
        list[Annotated[list[Word], Field(min_length=1, max_length=20)]], Field(min_length=1, max_length=MOST_RUNS)
    ]


class PresetRequest(Strict):
    """A command to be kept: its overrides, and options such as jobs.priority=high."""

    verb: Verb
    words: Words = []


class ScheduleRequest(Command, Options):
    """A command that is submitted at the times of a cron expression, in UTC; @time in its words is that time."""

    every: Annotated[str, Field(max_length=100)]


class PriorityRequest(Strict):
    """A new priority."""

    priority: Priority


class AfterRequest(Strict):
    """The jobs that a job comes after."""

    after: Annotated[list[JobId], Field(max_length=100)]


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


class NoticeView(View):
    """A message to a target about a job; the target is shown without its path."""

    event: str
    target: Annotated[str, BeforeValidator(shown)]
    created: float
    tries: int
    sent: float | None
    due: float | None  # the next try; null: delivered, or given up
    error: str


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
        machines = [MachineUse(machine=name, last=use.last, **vars(use)) for name, use in uses.items()]
        return cls(attempt=attempt, machines=machines)


class ScheduleView(View):
    """A schedule: its command, the next time, and what the last one brought."""

    id: int
    owner: str
    project: Annotated[str, BeforeValidator(lambda options: options.get("project") or "")] = Field(
        validation_alias="options"  # rows from before have none
    )
    every: str
    verb: str
    words: list[str]
    priority: Priority = Field(validation_alias=AliasPath("options", "priority"))
    tags: list[str] = Field(validation_alias=AliasPath("options", "tags"))
    created: float
    due: float | None  # null: paused
    job: str | None
    trouble: str


class PresetView(View):
    """A kept command."""

    name: str
    verb: str = Field(validation_alias=AliasPath("content", "verb"))
    words: list[str] = Field(validation_alias=AliasPath("content", "words"))
    changed: float


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
