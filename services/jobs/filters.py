"""The filters of jobs, `state=failed owner=anna since=2d`: one grammar for command line, REST, client and pages."""

from collections.abc import Sequence
from typing import cast

from typing_extensions import TypedDict

from dragoman.model.errors import UserError, unknown
from dragoman.services.jobs.states import State


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
    """Returns the filters in `words`. A word without = is a part of a name, or a job's id.

    Raises UserError: names the key that is unknown or has no value.
    """
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
