"""The jobs that filters choose, as conditions and an order of the ledger's rows."""

import re
from datetime import datetime
from typing import Annotated, Literal, get_args

from pydantic import Field
from sqlalchemy import ColumnElement, String, cast, or_

from dragoman.model.errors import UserError
from dragoman.services.jobs.bodies import Cursor, Moment, Owner, Strict, Tag
from dragoman.services.jobs.ledger.statements import JOBS
from dragoman.services.jobs.states import State

SortKey = Literal["submitted", "changed", "name", "owner", "model", "state", "priority", "spent", "score"]
SORT_KEYS: tuple[SortKey, ...] = get_args(SortKey)
SORT = rf"^-?({'|'.join(SORT_KEYS)})$"
NEWEST_FIRST = "-submitted"
COLUMNS: dict[str, ColumnElement[object]] = {"submitted": JOBS.c.seq}  # others have the key's name
AGE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(s|min|h|d|w)")
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


class JobQuery(Strict):
    """The wanted jobs and their order. An empty field admits all."""

    state: Annotated[list[State], Field(max_length=20)] = []
    owner: Owner | None = None
    verb: Annotated[str, Field(max_length=32)] | None = None
    name: Annotated[str, Field(max_length=200)] | None = None  # with * for any characters; or an id
    model: Owner | None = None  # the registered model, or the network of the submission
    tag: Annotated[list[Tag], Field(max_length=20)] = []  # all of them
    since: Moment | None = None  # submitted then or later
    until: Moment | None = None
    sort: Annotated[str, Field(pattern=SORT)] = NEWEST_FIRST  # a key of SORT_KEYS; with - before it the largest first

    @property
    def descending(self) -> bool:
        return self.sort.startswith("-")

    @property
    def by_age(self) -> bool:
        """Returns True if the cursor of a list is a job's `seq`; otherwise it is the number of jobs before."""
        return self.sort.lstrip("-") == "submitted"

    def conditions(self, now: float, state: bool = True) -> list[ColumnElement[bool]]:
        """Returns the conditions; without that of the state if `state` is False."""
        conditions = within(self, JOBS.c.submitted, now)
        if state and self.state:
            conditions.append(JOBS.c.state.in_(sorted(self.state)))
        for key in ("owner", "verb"):
            if (value := getattr(self, key)) is not None:
                conditions.append(JOBS.c[key] == value)
        if self.name is not None:
            same = JOBS.c.name.like(_pattern(self.name), escape="\\")
            conditions.append(or_(same, JOBS.c.id == self.name.strip("*")))
        if self.model is not None:
            conditions.append(or_(JOBS.c.model == self.model, _holds(JOBS.c.words, f"model={self.model}")))
        return [*conditions, *(_holds(JOBS.c.tags, tag) for tag in self.tag)]

    def order(self) -> list[ColumnElement[object]]:
        """Returns the order; jobs that are equal in it come by age, newest first."""
        key = self.sort.lstrip("-")
        column = COLUMNS[key] if key in COLUMNS else JOBS.c[key]
        return [column.desc().nulls_last() if self.descending else column.asc().nulls_last(), JOBS.c.seq.desc()]


class ListQuery(JobQuery):
    """A page of jobs."""

    cursor: Cursor | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50


def within(query: JobQuery, at: ColumnElement[float], now: float) -> list[ColumnElement[bool]]:
    """Returns the conditions of a query's span of time."""
    conditions: list[ColumnElement[bool]] = []
    if query.since:
        conditions.append(at >= moment_of("since", query.since, now))
    if query.until:
        conditions.append(at <= moment_of("until", query.until, now))
    return conditions


def moment_of(key: str, text: str, now: float, ahead: bool = False) -> float:
    """Returns the seconds since 1970 of an age (`90 s`, `30min`, `12h`, `2d`, `1w`) or of a date, with or without hour.

    An age is before `now`, or after it with `ahead`.
    """
    if (age := AGE.fullmatch(text.strip())) is not None:
        return now + (1.0 if ahead else -1.0) * float(age[1]) * UNITS[age[2]]
    try:
        return datetime.fromisoformat(text.strip()).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        raise UserError(f"{key}={text}: say an age such as 30min, 12h, 2d, 1w, or a date such as 2030-01-31") from None


def _pattern(text: str) -> str:
    """Returns LIKE's pattern for a name in which only * has a meaning."""
    return re.sub(r"([\\%_])", r"\\\1", text).replace("*", "%")


def _holds(column: ColumnElement[object], value: str) -> ColumnElement[bool]:
    """Returns the condition that a list of words, stored as JSON, holds the word."""
    return cast(column, String).contains(f'"{value}"', autoescape=True)
