"""A job as the service sends it: the one definition of its fields for the REST interface and its clients."""

from typing import Any

from typing_extensions import TypedDict  # pydantic takes the standard library's from Python 3.12 on

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
