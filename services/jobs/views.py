"""A job as the service sends it: the one definition of its fields for the REST interface and its clients."""

from collections.abc import Sequence
from typing import Any, cast

from typing_extensions import TypedDict  # pydantic takes the standard library's from Python 3.12 on

from dragoman.model.errors import UserError, unknown
from dragoman.services.jobs.states import State


class Job(TypedDict):
    """A job in a list. Times are seconds since 1970."""

    id: str
    owner: str
    verb: str
    words: list[str]
    state: State
    reason: str
    why: str  # what a waiting job waits for now; `reason` belongs to the last change of its state
    priority: int
    name: str  # of its run or its shards; empty: none
    run: str
    model: str  # the registered model that it changes; empty: none
    tags: list[str]
    submitted: float
    changed: float
    started: float | None
    attempt: int
    workers: int
    cpus: float
    gpus: float
    seconds: float | None  # expected, of the rest
    spent: float
    metric: str  # of the score; empty: none
    score: float | None


class JobHistory(Job):
    """A job with what was asked and planned."""

    after: list[str]
    retries: int
    max_seconds: float | None
    plan: dict[str, Any] | None


COLUMNS = tuple(name for name in Job.__annotations__ if name != "why")  # of the ledger's table, with the same names


def columns(row: object, kind: type[Any] = Job) -> dict[str, Any]:
    """Returns the fields of `kind` that a row or an object of the ledger has; `why` is empty."""
    return {name: getattr(row, name) if name != "why" else "" for name in kind.__annotations__}


def job_view(row: object) -> Job:
    return Job(**columns(row))  # type: ignore[typeddict-item, no-any-return]  # named by it


class JobFilters(TypedDict, total=False):
    """Filters of jobs and their order, as the REST interface has them."""

    state: Sequence[str]
    owner: str
    verb: str
    name: str  # of the run, with * for any characters; or a job's id
    model: str  # the registered model, or the network
    tag: Sequence[str]  # all of them
    since: str  # submitted then or later: an age (30min, 12h, 2d, 1w) or a date
    until: str
    sort: str  # submitted, changed, name, owner, model, state, priority, spent, score; - before it: the largest first


FILTERS = tuple(JobFilters.__annotations__)
SEVERAL = ("state", "tag")  # with A,B


def read_filters(words: Sequence[str]) -> JobFilters:
    """Returns the filters in `words`. A word without = is a part of a name, or a job's id."""
    filters: dict[str, str | list[str]] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals and word in list(State):
            raise UserError(f"{word}: write state={word}")
        if not equals:
            key, value = "name", f"*{word}*"
        if key not in FILTERS:
            raise unknown("filter", key, FILTERS)
        if not value:
            raise UserError(f"{key}= is empty; leave it out for all")
        if key in SEVERAL:
            filters[key] = [*filters.get(key, ()), *value.split(",")]
        else:
            filters[key] = value
    for state in filters.get("state", ()):
        if state not in list(State):
            raise unknown("state", state, list(State))
    return cast("JobFilters", filters)
