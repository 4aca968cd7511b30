"""The REST interface on jobs: lists, attempts, changes, notices, curves, use, and why one waits."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field
from sqlalchemy import ColumnElement

from dragoman.services.jobs.ledger.access import OTHERS, Person
from dragoman.services.jobs.ledger.filters import NEWEST_FIRST, SORT, Filter, moment_of
from dragoman.services.jobs.ledger.tables import Change, Notice
from dragoman.services.jobs.service.schemas.words import Moment, Owner, SavedName, Strict, Tag, View
from dragoman.services.jobs.service.targets import shown
from dragoman.services.jobs.service.usage import Use
from dragoman.services.jobs.states import State
from dragoman.services.jobs.views import Job, JobHistory


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
    def of(cls, attempt: int, found: Mapping[str, Use]) -> "UsageView":
        shared = MachineUse.model_fields.keys() - {"machine", "last"}
        machines = [
            MachineUse(machine=name, last=use.last, **{key: getattr(use, key) for key in shared})
            for name, use in found.items()
        ]
        return cls(attempt=attempt, machines=machines)


class HolderView(View):
    """A job that holds what another waits for."""

    job: str
    owner: str
    amount: float
    earliest: float
    latest: float | None


class WhyView(View):
    """The reason why a job waits, the jobs that hold what it needs, and the range of its expected start."""

    kind: str
    text: str
    resource: str = ""
    needed: float = 0
    free: float = 0
    ahead: int = 0
    holders: list[HolderView] = []
    earliest: float | None = None
    latest: float | None = None
